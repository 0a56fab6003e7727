"""The program `bigfleet-fake-provider`, which has one command.

Must never: import the command here; `--version` has to be quick.
Rules: `packaging#programs`, `packaging#settings-sources`, `providers#fake`.
"""

from functools import partial

from bigfleet.app.process import run_single_command
from bigfleet.cli.framework.tree import CliProgram, CommandRow

PROGRAM = CliProgram(
    name="bigfleet-fake-provider",
    summary="bigfleet-fake-provider serves simulated machines that fail like real ones.",
    rows=(CommandRow("serve", "serve simulated machines", "bigfleet.app.fake_provider.command:SERVE"),),
    examples=(
        "bigfleet-fake-provider --catalog realistic --idle 1000 --speculative 15000",
        "bigfleet-fake-provider --inventory pools.yaml --control-addr 127.0.0.1:9001",
    ),
)

main = partial(run_single_command, PROGRAM)
