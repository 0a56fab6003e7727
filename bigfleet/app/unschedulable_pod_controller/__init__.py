"""The program `bigfleet-unschedulable-pod-controller`: its table of commands, which has one row, and its `main`.

The name is historical: it keeps a request for every pod, scheduled or not (ADR-0039); charts and scripts know it.
Must never: import the command; the row names it, and it is imported when it runs.
Rules: packaging 1.1 and 1.2, operator 12.
"""

import sys
from collections.abc import Sequence
from typing import Final

from bigfleet.app.process import run_program
from bigfleet.cli.framework.tree import Program, Row

_RUN: Final = "run"

PROGRAM = Program(
    name="bigfleet-unschedulable-pod-controller",
    summary="bigfleet-unschedulable-pod-controller keeps one CapacityRequest for every pod of a cluster.",
    rows=(
        Row(
            _RUN,
            "keep one CapacityRequest per pod",
            "bigfleet.app.unschedulable_pod_controller.command:RUN",
        ),
    ),
    examples=(
        "bigfleet-unschedulable-pod-controller --metrics-addr :8080",
        "bigfleet-unschedulable-pod-controller --kubeconfig ~/.kube/config --priority-class-defaults defaults.yaml",
    ),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run until a signal comes and return the exit code; the word `run` may be left out."""
    given = list(sys.argv[1:] if argv is None else argv)
    return run_program(PROGRAM, given if given[:1] == [_RUN] else [_RUN, *given])
