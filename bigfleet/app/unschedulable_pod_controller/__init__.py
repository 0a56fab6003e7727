"""The program `bigfleet-unschedulable-pod-controller`, which has one command.

The name is historical (ADR-0039): the program keeps a request for every pod, scheduled or not; charts and scripts use it.
Must never: import the command here; `--version` has to be quick.
Rules: `packaging#programs`, `packaging#settings-sources`, `operator#pod-controller`.
"""

from functools import partial

from bigfleet.app.process import run_single_command
from bigfleet.cli.framework.tree import CliProgram, CommandRow

PROGRAM = CliProgram(
    name="bigfleet-unschedulable-pod-controller",
    summary="bigfleet-unschedulable-pod-controller keeps one CapacityRequest for every pod of a cluster.",
    rows=(
        CommandRow(
            "run",
            "keep one CapacityRequest per pod",
            "bigfleet.app.unschedulable_pod_controller.command:RUN",
        ),
    ),
    examples=(
        "bigfleet-unschedulable-pod-controller --metrics-addr :8080",
        "bigfleet-unschedulable-pod-controller --kubeconfig ~/.kube/config --priority-class-defaults defaults.yaml",
    ),
)

main = partial(run_single_command, PROGRAM)
