"""The program `bigfleetctl`: its table of commands and its `main`.

Must never: import a command; a row names it, and it is imported when it is asked for.
Rules: coordinator 15, packaging 1.9: global flags may stand before or after the verb, and the original's verbs have noun
forms beside them.
"""

from collections.abc import Sequence

from bigfleet.app.process import run_program
from bigfleet.cli.framework.tree import Program, Row

PROGRAM = Program(
    name="bigfleetctl",
    summary="bigfleetctl is the admin tool of a fleet's coordinator.",
    rows=(
        Row("assign-domain", "give a domain to a shard", "bigfleet.cli.bigfleetctl.domains:ASSIGN"),
        Row(
            "completion",
            "print a completion script for bash, zsh or fish",
            "bigfleet.cli.verbs.completion:BIGFLEETCTL",
        ),
        Row("domains", "which shard owns which domain"),
        Row("domains assign", "give a domain to a shard", "bigfleet.cli.bigfleetctl.domains:ASSIGN"),
        Row("domains list", "list which shard owns which domain", "bigfleet.cli.bigfleetctl.domains:LIST"),
        Row("domains unassign", "take a domain from its owner", "bigfleet.cli.bigfleetctl.domains:UNASSIGN"),
        Row(
            "list-domain-assignments",
            "list which shard owns which domain",
            "bigfleet.cli.bigfleetctl.domains:LIST",
        ),
        Row("list-shards", "list the registered shards", "bigfleet.cli.bigfleetctl.shards:LIST"),
        Row("remove-shard", "forget a shard and its domains", "bigfleet.cli.bigfleetctl.shards:REMOVE"),
        Row("reports", "show the last report of each shard", "bigfleet.cli.bigfleetctl.reports:REPORTS"),
        Row("shards", "the registry of shards"),
        Row("shards list", "list the registered shards", "bigfleet.cli.bigfleetctl.shards:LIST"),
        Row("shards remove", "forget a shard and its domains", "bigfleet.cli.bigfleetctl.shards:REMOVE"),
        Row("snapshot", "backups of the coordinator's tables"),
        Row(
            "snapshot extract",
            "make an archive from the directory of a stopped replica",
            "bigfleet.cli.bigfleetctl.snapshot:EXTRACT",
        ),
        Row("snapshot inspect", "show what is in an archive", "bigfleet.cli.bigfleetctl.snapshot:INSPECT"),
        Row(
            "snapshot restore",
            "make a data directory from an archive",
            "bigfleet.cli.bigfleetctl.snapshot:RESTORE",
        ),
        Row("snapshot save", "save a fresh snapshot", "bigfleet.cli.bigfleetctl.snapshot:SAVE"),
        Row("status", "show how the coordinator stands", "bigfleet.cli.bigfleetctl.status:STATUS"),
        Row("unassign-domain", "take a domain from its owner", "bigfleet.cli.bigfleetctl.domains:UNASSIGN"),
        Row("version", "print version and build", "bigfleet.cli.verbs.version:BIGFLEETCTL"),
    ),
    examples=(
        "bigfleetctl status",
        "bigfleetctl list-shards --context prod -o json",
        "bigfleetctl snapshot save coordinator.tar",
        "source <(bigfleetctl completion bash)",
    ),
    leading_value_flags=frozenset(
        {
            "config",
            "log-level",
            "output",
            "o",
            "coordinator",
            "timeout",
            "context",
            "tls-cert",
            "tls-key",
            "tls-ca",
        }
    ),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    return run_program(PROGRAM, argv)
