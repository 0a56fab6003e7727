"""The program `bigfleet-fault-provider`, which has one command.

Must never: import the command here; `--version` has to be quick.
Rules: `packaging#programs`, `packaging#settings-sources`, `providers#fault-convention`.
"""

from functools import partial

from bigfleet.app.process import run_single_command
from bigfleet.cli.framework.tree import CliProgram, CommandRow

PROGRAM = CliProgram(
    name="bigfleet-fault-provider",
    summary="bigfleet-fault-provider fails on command, for the fault profile of the conformance kit.",
    rows=(
        CommandRow("serve", "serve slots that fail on command", "bigfleet.app.fault_provider.command:SERVE"),
    ),
    examples=("bigfleet-fault-provider --transition-timeout 2s",),
)

main = partial(run_single_command, PROGRAM)
