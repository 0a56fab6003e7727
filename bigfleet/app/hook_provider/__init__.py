"""The program `bigfleet-hook-provider`, which has one command.

Must never: import the command here; `--version` has to be quick.
Rules: `packaging#programs`, `packaging#settings-sources`, `providers#hook`.
"""

from functools import partial

from bigfleet.app.process import run_single_command
from bigfleet.cli.framework.tree import CliProgram, CommandRow

PROGRAM = CliProgram(
    name="bigfleet-hook-provider",
    summary="bigfleet-hook-provider serves the machines of an inventory file and acts on them through hook commands.",
    rows=(
        CommandRow("serve", "serve the machines of an inventory", "bigfleet.app.hook_provider.command:SERVE"),
    ),
    examples=(
        "bigfleet-hook-provider --inventory hall-7.yaml --state /var/lib/bigfleet-hook",
        "bigfleet-hook-provider --inventory hall-7.yaml --check",
    ),
)

main = partial(run_single_command, PROGRAM)
