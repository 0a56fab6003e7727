"""Every command that a page shows is run by a test, or is listed here with the reason why not; and all of ours are at least read.

Rules: `packaging#pages-run`, `packaging#docs-names`.
"""

import re
from datetime import UTC, datetime
from importlib import import_module
from io import StringIO
from pathlib import Path

import pytest

from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.dispatch import dispatch
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.framework.tree import CliProgram
from tests.docs.named_things import built
from tests.docs.shell_blocks import DOCS, ROOT, Shown, commands, name_of, pages

PROGRAMS: dict[str, CliProgram] = {
    program.name: program
    for program in (
        import_module(f"bigfleet.app.{module}").PROGRAM
        for module in (
            "bigfleet",
            "bigfleetctl",
            "fake_provider",
            "fault_provider",
            "hook_provider",
            "kubectl_bigfleet",
            "operator",
            "unschedulable_pod_controller",
        )
    )
}
PLAYED = {
    # Every block of the page, or every `bash` block, is typed in by this test.
    "coordinator.md": "tests/integration/docs/test_played_pages.py",
    "decisions.md": "tests/docs/test_console_pages.py",
    "dev/release.md": "tests/release/test_build.py",
    "explain.md": "tests/docs/test_console_pages.py",
    "first-fleet.md": "tests/integration/docs/test_played_pages.py",
    "getting-started.md": "tests/integration/docs/test_played_pages.py",
    "hook-provider.md": "tests/integration/provider/test_examples.py",
    "install.md": "tests/integration/docs/test_install_page.py",
    "operations.md": "tests/integration/docs/test_played_pages.py",
    "provider-author-guide.md": "tests/integration/provider/test_examples.py",
    "runbooks/fenced-shard.md": "tests/integration/runbooks/test_shard_pages.py",
    "runbooks/lost-quorum.md": "tests/integration/coordinator/test_runbook.py",
    "runbooks/provider-outage.md": "tests/integration/runbooks/test_shard_pages.py",
    "runbooks/quarantined-roll-up.md": "tests/integration/runbooks/test_shard_pages.py",
    "runbooks/restore.md": "tests/integration/coordinator/test_runbook.py",
    "runbooks/stock-out.md": "tests/integration/runbooks/test_shard_pages.py",
    "runbooks/stuck-drain.md": "tests/integration/runbooks/test_shard_pages.py",
    "upgrade.md": "tests/integration/docs/test_played_pages.py",
    "what-if.md": "tests/docs/test_console_pages.py",
}
WHOLE = {"decisions.md", "explain.md", "hook-provider.md", "provider-author-guide.md", "what-if.md"}
"""Pages of which the `sh` and `console` blocks are run too."""
OUTSIDE = {
    "kubectl": "needs a cluster and kubectl; what the pages ask for is asked of a real API server in tests/e2e",
    "helm": "installs into a cluster; tests/integration/docs/test_install_page.py renders every one with the same words",
    "up.sh": "needs Docker; tests/charts/test_kind.py runs it with tools that write down what they are asked",
    "down.sh": "the same",
    "make": "runs the suite or the program itself; CI runs it",
    "curl": "made by the test of the played pages, but for what needs nodes of a test: tests/e2e/fleet asks that",
}
NOT_RUN = {
    "reference/cli.md": "one-line examples of the generated reference: read by their programs below, run by the tests of each verb",
    "benchmarks.md": "takes minutes; tests/unit/cli/verbs/test_bench.py runs the verbs on the smallest fleet",
    "conformance.md": "needs a provider that the reader has started; tests/integration/provider runs the kit over every profile",
    "coordinator.md": "three replicas of a StatefulSet by their names in a cluster; tests/integration/coordinator runs three processes",
    "dashboard.md": "its servers are started by the test of the played pages; one needs a coordinator by its name",
    "fake-provider.md": "its servers are started by the test of the played pages",
    "getting-started.md": "asks a shard of the reader's own",
    "install.md": "asks a deployment of the reader's own; tests/e2e/charts/test_installed.py asks one",
    "kubectl-plugin.md": "needs a cluster and a shard; tests/unit/cli/kubectl/test_pod_report.py tells the same story",
    "operator.md": "needs a cluster; tests/e2e/operator runs it against a real API server",
    "pod-controller.md": "needs a cluster; tests/e2e/podcontroller runs it against a real API server",
    "shard.md": "one server is started by the test of the played pages; the other needs a provider by its name",
}
ALL = [shown for page in pages() for shown in commands(page)]
OURS = sorted({(shown.page, shown.text) for shown in ALL if shown.program in PROGRAMS})


def is_run(shown: Shown) -> bool:
    return shown.page in PLAYED and (shown.kind == "bash" or shown.page in WHOLE)


def test_there_are_commands_to_look_at() -> None:
    assert len(ALL) > 150
    assert {"bigfleet", "bigfleetctl", "bigfleet-operator", "bigfleet-hook-provider"} <= {
        one.program for one in ALL
    }


@pytest.mark.rule("packaging#pages-run")
def test_every_command_is_run_by_a_test_or_is_listed_with_a_reason() -> None:
    left = [
        f"{shown.page}: {shown.text}"
        for shown in ALL
        if not is_run(shown) and shown.program not in OUTSIDE and shown.page not in NOT_RUN
    ]
    assert left == []


def test_no_reason_outlives_what_it_was_for() -> None:
    wanted = {shown.page for shown in ALL if not is_run(shown) and shown.program not in OUTSIDE}
    assert sorted(NOT_RUN.keys() - wanted) == []
    assert sorted(OUTSIDE.keys() - {shown.program for shown in ALL}) == []


def test_every_bash_block_belongs_to_a_test_that_names_its_page() -> None:
    with_bash = {shown.page for shown in ALL if shown.kind == "bash"}
    assert sorted(with_bash - PLAYED.keys()) == []
    for page, test in PLAYED.items():
        assert (DOCS / page).exists() or (ROOT / page).exists(), page
        named = Path(page).stem if page.startswith("runbooks/") else Path(page).name
        text = (ROOT / test).read_text(encoding="utf-8")
        assert named in text, f"{test} does not name {page}"


def test_a_make_target_that_a_page_names_exists() -> None:
    targets = set(
        re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    )
    for page in pages():
        for target in re.findall(r"`make ([a-z][a-z0-9-]*)", built(page.read_text(encoding="utf-8"))):
            assert target in targets, f"{name_of(page)}: make {target}"


@pytest.mark.rule("packaging#pages-run")
@pytest.mark.parametrize(("page", "text"), OURS, ids=[f"{page}: {text[:60]}" for page, text in OURS])
def test_a_command_of_ours_is_one_that_its_program_takes(page: str, text: str) -> None:
    """Read by the program itself, every flag and value of it, up to the point where it would begin to work."""
    shown = Shown(page, "", text)
    words = [word for word in shown.arguments if word not in {"-h", "--help"}]
    program = PROGRAMS[shown.program]
    only, *others = [row.name for row in program.commands()]
    if not others:
        words = [only, *words]  # the only command of a program may be left out
    out, err = StringIO(), StringIO()
    console = Console(program, out, err, {}, lambda: datetime(2026, 1, 1, tzinfo=UTC))
    if words[:2] != ["provider-admin", "repair"] or len(words) > 2:
        assert dispatch(console, [*_stated(words), "--print-config"]) == ExitCode.DONE, err.getvalue()


def _stated(words: list[str]) -> list[str]:
    """Put an address for a variable that stands for one; other variables are as good as any text."""
    return ["127.0.0.1:1" if word in {"$SHARD", "$COORDINATOR"} else word for word in words]
