"""What the pages name exists: every metric, every flag, and every page that must be there (packaging 7 items 45 and 48)."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from bigfleet.cli.framework.surface import entries
from bigfleet.obs.catalogue import CATALOGUE
from tests.docs.shell_blocks import DOCS, name_of, pages, text_of

METRIC = re.compile(r"`(bigfleet_[a-z0-9_]+)")
FLAG = re.compile(r"(?<![\w-])--([a-z][a-z0-9-]+)")
MODULES = (
    *(
        "bigfleet",
        "bigfleetctl",
        "fake_provider",
        "fault_provider",
        "hook_provider",
        "kubectl_bigfleet",
        "operator",
    ),
    "unschedulable_pod_controller",
)
FLAGS = {
    name.lstrip("-")
    for module in MODULES
    for entry in entries(import_module(f"bigfleet.app.{module}").PROGRAM)
    for option in entry.options
    for name in (option.flag, *option.flag.split())
} | {"help", "version"}
OTHERS = {
    # Flags of programs that are not ours, by who has them.
    "pytest": {
        "rewrite",
        "evidence",
        "screenshots",
        "bigfleet-target",
        "bigfleet-fault-target",
        "bigfleet-profile",
        "bigfleet-seed",
        "bigfleet-machines",
    },
    "helm": {
        "values",
        "strict",
        "take-ownership",
        "set",
        "namespace",
        "create-namespace",
        "kube-context",
        "install",
    },
    "kubectl and kind": {
        *("context", "field-selector", "name", "dry-run", "namespace"),
        *("since", "previous", "raw", "as", "no-headers", "from-file"),
    },
    "parts of the test control plane": {
        *("emulated-version", "kube-api-burst", "kube-api-qps", "permit-port-sharing", "unsafe-no-fsync"),
    },
    "tools of this repository": {"check", "dirty", "out", "only", "json", "proto_path", "tag"},
    "examples of the pages": {"flag", "bool", "port", "who", "seed-count", "cluster", "x"},
    "sha256sum": {"check", "quiet"},
}
MUST_EXIST = (
    # packaging 5.1; the providers' pages lie at the top, beside the others
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
    *("dev/house", "dev/failure-matrix", "dev/release", "dev/docs-checklist", "benchmarks"),
)
# Pages of situations are named in small letters; pages of alerts, which bear the alert's name, have a form of their own.
RUNBOOKS = sorted(
    path for path in (DOCS / "runbooks").glob("[a-z]*.md") if path.stem not in {"alerts", "situations"}
)


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_metric_that_a_page_names_is_in_the_catalogue(page: Path) -> None:
    names = {metric.name for metric in CATALOGUE}
    text = text_of(page)
    for found in METRIC.findall(text):
        bare = re.sub(r"_(bucket|count|sum)$", "", found)
        is_family = found.endswith("_") and any(name.startswith(found) for name in names)
        assert bare in names or found in names or is_family, found


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_flag_that_a_page_names_exists(page: Path) -> None:
    known = FLAGS.union(*OTHERS.values())
    strange = sorted({flag for flag in FLAG.findall(text_of(page)) if flag not in known})
    assert strange == []


def test_every_page_that_must_be_there_is() -> None:
    assert [name for name in MUST_EXIST if not (DOCS / f"{name}.md").is_file()] == []


def test_every_runbook_has_one_form_and_is_in_the_table() -> None:
    index = (DOCS / "runbooks" / "situations.md").read_text("utf-8")
    assert {path.stem for path in RUNBOOKS} == {
        *("fenced-shard", "lost-quorum", "provider-outage", "quarantined-roll-up", "restore", "stuck-drain")
    }
    for path in RUNBOOKS:
        headings = re.findall(r"^## (.+)$", path.read_text("utf-8"), re.MULTILINE)
        assert headings == ["Symptom", "What it means", "Look", "Do", "Check"], path.name
        assert f"]({path.name})" in index


def test_the_questions_are_enough_and_are_answered() -> None:
    asked = re.findall(r"^\*\*(.+?)\*\* \S", (DOCS / "faq.md").read_text("utf-8"), re.MULTILINE)
    assert len(asked) >= 25
    assert all(question.endswith("?") for question in asked)
