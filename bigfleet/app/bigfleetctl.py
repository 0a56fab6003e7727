"""The program `bigfleetctl`: its table of commands and its `main`.

Must never: import a command here; `--help` has to be quick.
Rules: `coordinator#bigfleetctl`, `packaging#bigfleetctl`: global flags may come before or after the verb, and the
original's verbs also have noun forms.
"""

from collections.abc import Sequence

from bigfleet.app.process import run_program
from bigfleet.cli.framework.tree import CliProgram, CommandRow

PROGRAM = CliProgram(
    name="bigfleetctl",
    summary="bigfleetctl is the admin tool of a fleet's coordinator.",
    rows=(
        CommandRow("assign-domain", "assign a domain to a shard", "bigfleet.cli.bigfleetctl.domains:ASSIGN"),
        CommandRow(
            "completion",
            "print a completion script for bash, zsh or fish",
            "bigfleet.cli.verbs.completion:BIGFLEETCTL",
        ),
        CommandRow("domains", "which shard owns which domain"),
        CommandRow("domains assign", "assign a domain to a shard", "bigfleet.cli.bigfleetctl.domains:ASSIGN"),
        CommandRow(
            "domains list", "list which shard owns which domain", "bigfleet.cli.bigfleetctl.domains:LIST"
        ),
        CommandRow(
            "domains unassign", "take a domain from its shard", "bigfleet.cli.bigfleetctl.domains:UNASSIGN"
        ),
        CommandRow(
            "list-domain-assignments",
            "list which shard owns which domain",
            "bigfleet.cli.bigfleetctl.domains:LIST",
        ),
        CommandRow("list-shards", "list the registered shards", "bigfleet.cli.bigfleetctl.shards:LIST"),
        CommandRow(
            "remove-shard", "remove a shard and its domains", "bigfleet.cli.bigfleetctl.shards:REMOVE"
        ),
        CommandRow(
            "reports", "show the last report of each shard", "bigfleet.cli.bigfleetctl.reports:REPORTS"
        ),
        CommandRow("shards", "the registry of shards"),
        CommandRow("shards list", "list the registered shards", "bigfleet.cli.bigfleetctl.shards:LIST"),
        CommandRow(
            "shards remove", "remove a shard and its domains", "bigfleet.cli.bigfleetctl.shards:REMOVE"
        ),
        CommandRow("snapshot", "backups of the coordinator's tables"),
        CommandRow(
            "snapshot extract",
            "create an archive from the data directory of a stopped replica",
            "bigfleet.cli.bigfleetctl.snapshot:EXTRACT",
        ),
        CommandRow(
            "snapshot inspect", "show what is in an archive", "bigfleet.cli.bigfleetctl.snapshot:INSPECT"
        ),
        CommandRow(
            "snapshot restore",
            "create a data directory from an archive",
            "bigfleet.cli.bigfleetctl.snapshot:RESTORE",
        ),
        CommandRow("snapshot save", "save a fresh snapshot", "bigfleet.cli.bigfleetctl.snapshot:SAVE"),
        CommandRow("status", "show the status of the coordinator", "bigfleet.cli.bigfleetctl.status:STATUS"),
        CommandRow(
            "unassign-domain", "take a domain from its shard", "bigfleet.cli.bigfleetctl.domains:UNASSIGN"
        ),
        CommandRow("version", "print version and build", "bigfleet.cli.verbs.version:BIGFLEETCTL"),
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
