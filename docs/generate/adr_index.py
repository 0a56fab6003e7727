"""The index of decision records: one row per page, title and status read from the page itself."""

import re
from pathlib import Path

from docs.generate.markdown import page as markdown_page
from docs.generate.markdown import plain, table

_HEADING = re.compile(r"^# (?:ADR[- ])?(?P<number>\d{4}[a-z]?)[.:] +(?P<title>.+)$", re.MULTILINE)
_STATUS = re.compile(r"^- Status: +(?P<status>.+)$", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


def page(folder: Path) -> str:
    """Return the index of a folder of decision records."""
    rows = [_row(path) for path in sorted(folder.glob("[0-9]*.md"), key=_order)]
    return markdown_page(
        "Decision records",
        "Each decision that changes an answer has a record: what was asked, what was chosen, what was refused and why, and "
        "the test that holds it. Records up to 0061 continue those of the original, in our own words; later ones are ours.",
        table(("Record", "Title", "Status"), rows),
    )


def _order(path: Path) -> tuple[str, str]:
    # The addendum to 0042 is filed as 0042-addendum-…, and comes after the record it adds to.
    return path.name[:4], "" if "-addendum-" not in path.name else path.name


def _row(path: Path) -> tuple[str, str, str]:
    text = path.read_text(encoding="utf-8")
    heading, status = _HEADING.search(text), _STATUS.search(text)
    if heading is None or status is None:
        raise ValueError(f"{path}: found no heading `# NNNN. Title` or no line `- Status: …`")
    told = _LINK.sub(r"\1", status["status"])
    return f"[{heading['number']}]({path.name})", plain(heading["title"].strip()), plain(told.strip())
