"""The program `bigfleet`: its table of commands and its `main`.

Must never: import a command; a row names it, and it is imported when it is asked for.
Rules: packaging 1.1, 1.2.
"""

from collections.abc import Sequence

from bigfleet.app.process import run_program
from bigfleet.cli.framework.tree import Program, Row

PROGRAM = Program(
    name="bigfleet",
    summary="BigFleet decides which machine serves which Kubernetes cluster, acts on it, and says why.",
    rows=(
        Row(
            "all-in-one",
            "run a whole small fleet with dashboard in one process",
            "bigfleet.app.all_in_one.command:ALL_IN_ONE",
        ),
        Row("bench", "benchmarks of the engine, and their comparison"),
        Row(
            "bench engine",
            "measure the engine on a made-up fleet",
            "bigfleet.cli.verbs.bench:ENGINE",
        ),
        Row("bench compare", "compare two measurements of the engine", "bigfleet.cli.verbs.bench:COMPARE"),
        Row("certs", "development certificates: an authority, certificates for each role, a look inside"),
        Row("certs init", "make a development certificate authority", "bigfleet.cli.verbs.certs:INIT"),
        Row(
            "certs issue",
            "sign a certificate for a cluster, shard, admin or reader",
            "bigfleet.cli.verbs.certs:ISSUE",
        ),
        Row(
            "certs show",
            "tell what a certificate says and what is wrong with it",
            "bigfleet.cli.verbs.certs:SHOW",
        ),
        Row(
            "cluster-sim",
            "play a cluster from a file of demand, without Kubernetes",
            "bigfleet.app.cluster_sim.command:CLUSTER_SIM",
        ),
        Row(
            "completion",
            "print a completion script for bash, zsh or fish",
            "bigfleet.cli.verbs.completion:BIGFLEET",
        ),
        Row(
            "conformance",
            "test any provider against the contract",
            "bigfleet.cli.verbs.conformance:CONFORMANCE",
        ),
        Row(
            "coordinator",
            "run a replica of the coordinator",
            "bigfleet.app.coordinator.command:COORDINATOR",
        ),
        Row(
            "dashboard",
            "serve read-only pages over coordinator and shards",
            "bigfleet.app.dashboard.command:DASHBOARD",
        ),
        Row(
            "decide",
            "decide on a saved snapshot and print what would be done",
            "bigfleet.cli.verbs.decide:DECIDE",
        ),
        Row("demo", "play a short story of a fleet, and tell it", "bigfleet.cli.verbs.demo:DEMO"),
        Row(
            "doctor",
            "check a deployment from where it runs, one line each",
            "bigfleet.cli.verbs.doctor.command:DOCTOR",
        ),
        Row(
            "explain",
            "explain a need or a machine of a saved snapshot or a running shard, and what would change it",
            "bigfleet.cli.verbs.explain:EXPLAIN",
        ),
        Row("machines", "list the machines of a running shard", "bigfleet.cli.verbs.machines:MACHINES"),
        Row("needs", "list the needs of a running shard and how they fare", "bigfleet.cli.verbs.needs:NEEDS"),
        Row(
            "new-provider",
            "write the project of a provider that works, to be filled in",
            "bigfleet.cli.verbs.new_provider:NEW_PROVIDER",
        ),
        Row("provider-admin", "what only a person at the provider's own host may do"),
        Row(
            "provider-admin repair",
            "bring a Failed machine back",
            "bigfleet.cli.verbs.provider_admin:REPAIR",
        ),
        Row("shard", "run a shard: the process that moves machines", "bigfleet.app.shard.command:SHARD"),
        Row(
            "snapshot",
            "print what a running shard decided on last, as a document",
            "bigfleet.cli.verbs.snapshot:SNAPSHOT",
        ),
        Row("status", "tell how a running shard stands", "bigfleet.cli.verbs.status:STATUS"),
        Row("version", "print version and build", "bigfleet.cli.verbs.version:BIGFLEET"),
        Row("watch", "show how a running shard stands, cycle after cycle", "bigfleet.cli.verbs.status:WATCH"),
        Row(
            "what-if",
            "decide on a saved snapshot or a running shard's with edits and print the difference",
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
