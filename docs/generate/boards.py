"""The page of Grafana boards, from the rows that the boards are made of."""

from charts.generate.boards import BOARDS, Panel
from docs.generate.markdown import code, plain, table
from docs.generate.markdown import page as markdown_page

_INTRO = """
The Grafana boards of `deploy/grafana/`, which the chart installs with `grafanaDashboards.enabled`. Every board has a data source and
a pod to choose. Beyond its limit a panel is red. The [dashboard](../dashboard.md) is something else: pages of our own that explain.
"""


def page() -> str:
    """Return the page."""
    sections = [
        f"## {board.title.removeprefix('BigFleet: ')}\n\n`deploy/grafana/{board.name}.json`\n\n"
        + table(("Panel", "Why one looks", "Unit", "Limit", "Queries"), map(_row, board.panels))
        for board in BOARDS
    ]
    return markdown_page("Boards", _INTRO, *sections)


def _row(panel: Panel) -> tuple[str, ...]:
    limit = "" if panel.limit is None else f"{'≥' if panel.at_least else '≤'} {panel.limit:g}"
    queries = "<br>".join(code(query) for _, query in panel.queries)
    return plain(panel.title), plain(panel.why), panel.unit, limit, queries
