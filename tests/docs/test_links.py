"""No dead relative link and no missing anchor in any Markdown file of the repository."""

import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = {".venv", ".git", ".make", "site", "node_modules", "build", "dist", ".pytest_cache"}
PAGES = sorted(
    path for path in ROOT.rglob("*.md") if not SKIPPED & set(path.relative_to(ROOT).parts) and path.is_file()
)
FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)
OWN_ID = re.compile(r"\{#([\w.-]+)\}$")
MARK = re.compile(r'<a id="([\w.-]+)"></a>')


def links(path: Path) -> list[str]:
    text = CODE.sub("", FENCE.sub("", path.read_text(encoding="utf-8")))
    return [link for link in LINK.findall(text) if not re.match(r"[a-z][a-z+.-]*:", link)]


@cache
def anchors(path: Path) -> set[str]:
    """Return the anchors of a page: ids written down, and those that the site makes of other headings."""
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    found = set(MARK.findall(text))
    for heading in HEADING.findall(text):
        if own := OWN_ID.search(heading):
            found.add(own[1])
            continue
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        slug = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", words).strip().lower())
        numbered = slug
        count = 0
        while numbered in found:
            count += 1
            numbered = f"{slug}_{count}"
        found.add(numbered)
    return found


def test_there_are_pages_to_look_at() -> None:
    names = {path.relative_to(ROOT).as_posix() for path in PAGES}
    assert {"README.md", "docs/index.md", "docs/reference/metrics.md", "docs/concepts.md"} <= names


@pytest.mark.rule("packaging#strict-site")
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_relative_link_leads_somewhere(path: Path) -> None:
    dead = []
    for link in links(path):
        target, _, anchor = unquote(link).partition("#")
        file = (path.parent / target).resolve() if target else path
        if (
            not file.exists()
            or not file.is_relative_to(ROOT)
            or (anchor and file.suffix == ".md" and anchor not in anchors(file))
        ):
            dead.append(link)
    assert dead == []
