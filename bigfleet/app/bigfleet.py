"""The program `bigfleet`: its table of commands and its `main`.

Called by: the console script and `cmd/bigfleet`.
Must never: import a command; a row names it, and it is imported when it is asked for.
Rules: packaging 1.1, 1.2.
"""

from collections.abc import Sequence

from bigfleet.app.process import run_program
from bigfleet.cli.tree import Program, Row

PROGRAM = Program(
    name="bigfleet",
    summary="BigFleet decides which machine serves which Kubernetes cluster, acts on it, and says why.",
    rows=(
        Row("certs", "development certificates: an authority, certificates for each role, a look inside"),
        Row("certs init", "make a development certificate authority", "bigfleet.cli.certs:INIT"),
        Row(
            "certs issue",
            "sign a certificate for a cluster, shard, admin or reader",
            "bigfleet.cli.certs:ISSUE",
        ),
        Row(
            "certs show", "tell what a certificate says and what is wrong with it", "bigfleet.cli.certs:SHOW"
        ),
        Row(
            "completion",
            "print a completion script for bash, zsh or fish",
            "bigfleet.cli.completion:BIGFLEET",
        ),
        Row(
            "decide", "decide on a saved snapshot and print what would be done", "bigfleet.cli.decide:DECIDE"
        ),
        Row("version", "print version and build", "bigfleet.cli.version:BIGFLEET"),
    ),
    examples=(
        "bigfleet certs init ./pki",
        "bigfleet certs issue ./pki --role shard --name shard-0",
        "bigfleet certs show ./pki/shard-0",
    ),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    return run_program(PROGRAM, argv)
