"""The program `bigfleet-operator`, which has one command.

Must never: import the command here; `--version` has to be quick.
Rules: `packaging#programs`, `packaging#settings-sources`, `operator#process`.
"""

from functools import partial

from bigfleet.app.process import run_single_command
from bigfleet.cli.framework.tree import CliProgram, CommandRow

PROGRAM = CliProgram(
    name="bigfleet-operator",
    summary="bigfleet-operator represents one cluster: it reports demand to a shard and carries out the shard's requests.",
    rows=(CommandRow("run", "run the operator of one cluster", "bigfleet.app.operator.command:RUN"),),
    examples=(
        "bigfleet-operator --cluster-id prod-1 --shard-addr shard-0.bigfleet:7780",
        "bigfleet-operator --cluster-id prod-1 --shard-addr shard-0:7780 --bootstrap-template-file join.tmpl",
    ),
)

main = partial(run_single_command, PROGRAM)
