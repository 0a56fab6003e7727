"""What the pages name exists: every metric, every flag, and every page that must be there.

Rules: `packaging#strict-site`, `packaging#docs-names`.
"""

import re
from pathlib import Path

import pytest

from docs.generate.citations import PAGES
from docs.generate.metrics import CATALOGUE
from tests.docs.named_flags import FLAG, KNOWN
from tests.docs.named_things import built
from tests.docs.shell_blocks import DOCS, name_of, pages

METRIC = re.compile(r"`(bigfleet_[a-z0-9_]+)")
MUST_EXIST = (
    # `packaging#strict-site`; the providers' pages lie at the top, beside the others
    *(
        "getting-started",
        "install",
        "concepts",
        "architecture",
        "decisions",
        "operations",
        "runbooks/situations",
        "security",
        "scaling",
    ),
    *(
        "upgrade",
        "migration",
        "faq",
        "slos",
        "user-stories",
        "provider-author-guide",
        "conformance",
        "hook-provider",
        "crds",
        "snapshot",
        "adr/index",
    ),
    *(
        f"reference/{name}"
        for name in (
            *("cli", "settings", "values", "exit-codes", "errors", "metrics", "alerts", "boards"),
            *("machine-states", "wire", "insight"),
        )
    ),
    *("dev/house", "dev/release", "benchmarks"),
    *(f"design/{name}" for name in (*PAGES, "held-by")),
)
# Pages of situations are named in small letters; pages of alerts, which bear the alert's name, have a form of their own.
RUNBOOKS = sorted(
    path for path in (DOCS / "runbooks").glob("[a-z]*.md") if path.stem not in {"alerts", "situations"}
)


@pytest.mark.rule("packaging#docs-names")
@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_metric_that_a_page_names_is_in_the_catalogue(page: Path) -> None:
    names = {metric.name for metric in CATALOGUE}
    text = page.read_text("utf-8")
    for found in METRIC.findall(text):
        bare = re.sub(r"_(bucket|count|sum)$", "", found)
        is_family = found.endswith("_") and any(name.startswith(found) for name in names)
        assert bare in names or found in names or is_family, found


@pytest.mark.rule("packaging#docs-names")
@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_flag_that_a_page_names_exists(page: Path) -> None:
    strange = sorted({flag for flag in FLAG.findall(built(page.read_text("utf-8"))) if flag not in KNOWN})
    assert strange == []


@pytest.mark.rule("packaging#strict-site")
def test_every_page_that_must_be_there_is() -> None:
    assert [name for name in MUST_EXIST if not (DOCS / f"{name}.md").is_file()] == []


@pytest.mark.rule("packaging#runbooks")
def test_every_runbook_has_one_form_and_is_in_the_table() -> None:
    index = (DOCS / "runbooks" / "situations.md").read_text("utf-8")
    assert {path.stem for path in RUNBOOKS} == {
        *(
            "fenced-shard",
            "lost-quorum",
            "provider-outage",
            "quarantined-roll-up",
            "restore",
            "stock-out",
            "stuck-drain",
        )
    }
    for path in RUNBOOKS:
        headings = re.findall(r"^## (.+)$", path.read_text("utf-8"), re.MULTILINE)
        assert headings == ["Symptom", "What it means", "Look", "Do", "Check"], path.name
        assert f"]({path.name})" in index


def test_the_questions_are_enough_and_are_answered() -> None:
    asked = re.findall(r"^\*\*(.+?)\*\* \S", (DOCS / "faq.md").read_text("utf-8"), re.MULTILINE)
    assert len(asked) >= 25
    assert all(question.endswith("?") for question in asked)
