"""The program `kubectl-bigfleet`, which kubectl runs as `kubectl bigfleet`: its table of verbs and its `main`.

Must never: import a verb here; `--help` has to be quick.
Rules: `operator#plugin-why`, `packaging#settings-sources`.
"""

from collections.abc import Sequence

from bigfleet.app.process import run_program
from bigfleet.cli.framework.tree import CliProgram, CommandRow

PROGRAM = CliProgram(
    name="kubectl bigfleet",
    summary="kubectl bigfleet shows what the pods of a cluster request, which machines are coming, and why a pod waits.",
    rows=(
        CommandRow(
            "needs", "list what pods request, equal demand in one row", "bigfleet.cli.kubectl.needs:NEEDS"
        ),
        CommandRow(
            "upcoming",
            "list the machines that join or leave this cluster",
            "bigfleet.cli.kubectl.upcoming:UPCOMING",
        ),
        CommandRow("why", "explain the state of one pod", "bigfleet.cli.kubectl.why:WHY"),
    ),
    examples=(
        "kubectl bigfleet needs -A",
        "kubectl bigfleet upcoming",
        "kubectl bigfleet why cart-0 -n shop",
    ),
    leading_value_flags=frozenset(
        {"config", "log-level", "output", "o", "kubeconfig", "context", "namespace", "n"}
    ),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    return run_program(PROGRAM, argv)
