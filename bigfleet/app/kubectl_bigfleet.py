"""The program `kubectl-bigfleet`, which kubectl runs as `kubectl bigfleet`: its table of verbs and its `main`.

Must never: import a verb; a row names it, and it is imported when it is asked for.
Rules: decision O5, packaging 1.2.
"""

from collections.abc import Sequence

from bigfleet.app.process import run_program
from bigfleet.cli.framework.tree import Program, Row

PROGRAM = Program(
    name="kubectl bigfleet",
    summary="kubectl bigfleet shows what pods of a cluster ask for, what is on its way, and why a pod waits.",
    rows=(
        Row("needs", "list what pods ask for, equal demand in one row", "bigfleet.cli.kubectl.needs:NEEDS"),
        Row(
            "upcoming",
            "list the machines that come into this cluster or leave it",
            "bigfleet.cli.kubectl.upcoming:UPCOMING",
        ),
        Row("why", "tell what is happening for one pod", "bigfleet.cli.kubectl.why:WHY"),
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
