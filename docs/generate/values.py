"""The page of chart values, from the rows that the charts are made of."""

from charts.generate.files import CHARTS
from charts.generate.value import table
from docs.generate.markdown import page as markdown_page

_INTRO = """
Every value of the three charts that have any; `bigfleet-crds` has none. The same rows make `values.yaml`, its schema and the
table in each chart's own README, so an unknown key is refused by name. How they work together is explained in
[Install](../install.md).
"""


def page() -> str:
    """Return the page."""
    sections = [f"## {chart.name}\n\n{chart.description}.\n\n{table(chart.rows)}" for chart in CHARTS]
    return markdown_page("Chart values", _INTRO, *sections)
