"""Generates the index of decision records: one row per page, with title, status and decision ids read from the page."""

import re
from pathlib import Path

from docs.generate.markdown import page as markdown_page
from docs.generate.markdown import plain, table

_HEADING = re.compile(r"^# (?:ADR[- ])?(?P<number>\d{4}[a-z]?)[.:] +(?P<title>.+)$", re.MULTILINE)
_STATUS = re.compile(r"^- Status: +(?P<status>.+)$", re.MULTILINE)
_DECIDES = re.compile(r"^- Decides: +(?P<ids>.+)$", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


def page(folder: Path) -> str:
    """Return the index of a folder of decision records."""
    rows = [_row(path) for path in sorted(folder.glob("[0-9]*.md"), key=_order)]
    return markdown_page(
        "Decision records",
        "Each decision that changes an answer has a record: what was asked, what was chosen, what was refused and why, and "
        "the test that holds it. Records up to 0061 continue those of [the original](../origins.md), in our own words; later "
        "ones are ours. The last column lists the decision ids (E: engine, S: shard, P: providers, C: coordinator, O: operator) "
        "that a record holds; other pages and the code cite the rules of the [design pages](../design/engine.md) instead.",
        table(("Record", "Title", "Status", "Decides"), rows),
    )


def _order(path: Path) -> tuple[str, str]:
    # The addendum to 0042 is filed as 0042-addendum-…, and comes after the record it adds to.
    return path.name[:4], "" if "-addendum-" not in path.name else path.name


def _row(path: Path) -> tuple[str, str, str, str]:
    text = path.read_text(encoding="utf-8")
    heading, status = _HEADING.search(text), _STATUS.search(text)
    if heading is None or status is None:
        raise ValueError(f"{path}: found no heading `# NNNN. Title` or no line `- Status: …`")
    decides = _DECIDES.search(text)
    return (
        f"[{heading['number']}]({path.name})",
        plain(heading["title"].strip()),
        plain(_LINK.sub(r"\1", status["status"]).strip()),
        plain(decides["ids"].strip()) if decides else "",
    )
