"""The program `bigfleet`: its table of commands and its `main`.

Must never: import a command here; `--help` has to be quick.
Rules: `packaging#programs`, `packaging#settings-sources`.
"""

from collections.abc import Sequence

from bigfleet.app.process import run_program
from bigfleet.cli.framework.tree import CliProgram, CommandRow

PROGRAM = CliProgram(
    name="bigfleet",
    summary="BigFleet decides which machine serves which Kubernetes cluster, executes the decision, and explains it.",
    rows=(
        CommandRow(
            "all-in-one",
            "run a whole small fleet with dashboard in one process",
            "bigfleet.app.all_in_one.command:ALL_IN_ONE",
        ),
        CommandRow("bench", "benchmark the engine, and compare results"),
        CommandRow(
            "bench engine",
            "measure the engine on a generated fleet",
            "bigfleet.cli.verbs.bench:ENGINE",
        ),
        CommandRow(
            "bench compare", "compare two measurements of the engine", "bigfleet.cli.verbs.bench:COMPARE"
        ),
        CommandRow("certs", "development certificates: create an authority, issue and show certificates"),
        CommandRow(
            "certs init", "create a development certificate authority", "bigfleet.cli.verbs.certs:INIT"
        ),
        CommandRow(
            "certs issue",
            "sign a certificate for a cluster, shard, admin or reader",
            "bigfleet.cli.verbs.certs:ISSUE",
        ),
        CommandRow(
            "certs secrets",
            "keep the certificates of a fleet in Secrets of a namespace",
            "bigfleet.cli.verbs.certificate_secrets:SECRETS",
        ),
        CommandRow(
            "certs show",
            "show what a certificate contains and what is wrong with it",
            "bigfleet.cli.verbs.certs:SHOW",
        ),
        CommandRow(
            "cluster-sim",
            "simulate a cluster from a file of demand, without Kubernetes",
            "bigfleet.app.cluster_sim.command:CLUSTER_SIM",
        ),
        CommandRow(
            "completion",
            "print a completion script for bash, zsh or fish",
            "bigfleet.cli.verbs.completion:BIGFLEET",
        ),
        CommandRow(
            "conformance",
            "test any provider against the contract",
            "bigfleet.cli.verbs.conformance:CONFORMANCE",
        ),
        CommandRow(
            "coordinator",
            "run a replica of the coordinator",
            "bigfleet.app.coordinator.command:COORDINATOR",
        ),
        CommandRow(
            "dashboard",
            "serve read-only pages over coordinator and shards",
            "bigfleet.app.dashboard.command:DASHBOARD",
        ),
        CommandRow(
            "decide",
            "run the engine on a saved snapshot and print its actions",
            "bigfleet.cli.verbs.decide:DECIDE",
        ),
        CommandRow("demo", "run a short scripted scenario of a fleet", "bigfleet.cli.verbs.demo:DEMO"),
        CommandRow(
            "doctor",
            "check a deployment from inside, one line per check",
            "bigfleet.cli.verbs.doctor.command:DOCTOR",
        ),
        CommandRow(
            "explain",
            "explain a need or a machine of a saved snapshot or a running shard, and what would change it",
            "bigfleet.cli.verbs.explain:EXPLAIN",
        ),
        CommandRow(
            "machines", "list the machines of a running shard", "bigfleet.cli.verbs.machines:MACHINES"
        ),
        CommandRow(
            "needs", "list the needs of a running shard and their status", "bigfleet.cli.verbs.needs:NEEDS"
        ),
        CommandRow(
            "new-provider",
            "create the project of a new provider",
            "bigfleet.cli.verbs.new_provider:NEW_PROVIDER",
        ),
        CommandRow("provider-admin", "actions that only a person on the provider's host may take"),
        CommandRow(
            "provider-admin repair",
            "bring a Failed machine back",
            "bigfleet.cli.verbs.provider_admin:REPAIR",
        ),
        CommandRow(
            "provider-admin reset-marks",
            "lower fence marks that a wrong epoch of a shard has left",
            "bigfleet.cli.verbs.provider_admin:RESET_MARKS",
        ),
        CommandRow(
            "shard", "run a shard: the process that moves machines", "bigfleet.app.shard.command:SHARD"
        ),
        CommandRow(
            "snapshot",
            "print the snapshot of a running shard's last cycle as a document",
            "bigfleet.cli.verbs.snapshot:SNAPSHOT",
        ),
        CommandRow("status", "show the status of a running shard", "bigfleet.cli.verbs.status:STATUS"),
        CommandRow("version", "print version and build", "bigfleet.cli.verbs.version:BIGFLEET"),
        CommandRow(
            "watch", "show the status of a running shard after every cycle", "bigfleet.cli.verbs.status:WATCH"
        ),
        CommandRow(
            "what-if",
            "run the engine on a saved snapshot or a running shard's with edits, and print the difference",
            "bigfleet.cli.verbs.what_if:WHAT_IF",
        ),
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
