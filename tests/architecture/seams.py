"""The seam check: production code reaches the outside through seams only, but for the adapters listed here.

Why: the simulator promises that one seed is one run; a single forgotten `time.time()` breaks that for good and unnoticed.
Must never: know a per-line escape. The list below is the only way around, module by module and rule by rule, and an entry
that is no longer needed is itself a finding.
Rules: `testing#constructor-seams`.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.architecture.seam_rules import Rule
from tests.architecture.seam_visitor import Finding, check_source

PACKAGE = Path(__file__).parents[2] / "bigfleet"

# Made by protoc; nobody here wrote a line of it.
GENERATED = ("_pb2.py", "_pb2_grpc.py")


@dataclass(frozen=True, slots=True)
class Adapter:
    """One module that stands at the outside, which rules it may break, and why."""

    rules: tuple[Rule, ...]
    reason: str


# In the order of the floors, from the ground up.
ADAPTERS: Mapping[str, Adapter] = {
    "aio/clock.py": Adapter((Rule.CLOCK,), "the system clock"),
    "aio/rng.py": Adapter((Rule.RANDOM,), "seeds streams, from the operating system in a real process"),
    "aio/ids.py": Adapter((Rule.RANDOM,), "ids from the secure source of the operating system"),
    "aio/seldom.py": Adapter((Rule.THREADS,), "counts for the threads of Raft and of its relays too"),
    "aio/system_disk.py": Adapter((Rule.DISK, Rule.CLOCK), "the system disk; waits for a descriptor"),
    "aio/proc.py": Adapter((Rule.PROCESS,), "signals and exits of the real process"),
    "transport/__init__.py": Adapter(
        (Rule.PROCESS,), "gRPC takes its cipher suites from the environment only"
    ),
    "transport/accepting.py": Adapter((Rule.NETWORK, Rule.CLOCK), "accepts from real sockets at a pace"),
    "transport/dev_ca.py": Adapter((Rule.DISK,), "writes and reads development certificates"),
    "transport/grpc_server.py": Adapter((Rule.NETWORK,), "the system network"),
    "transport/grpc_warden.py": Adapter(
        (Rule.NETWORK, Rule.CLOCK, Rule.DISK),
        "looks through the sockets of this process, by their descriptors",
    ),
    "transport/http.py": Adapter((Rule.NETWORK, Rule.CLOCK), "HTTP over real sockets, with its deadlines"),
    "transport/resolve.py": Adapter((Rule.NETWORK,), "names into addresses by the system's resolver"),
    "transport/tls.py": Adapter((Rule.THREADS,), "certificates are asked for on the threads of gRPC"),
    "coordinator/raft/certificates.py": Adapter(
        (Rule.NETWORK, Rule.DISK), "TLS of the Raft port; a key goes through a file in memory"
    ),
    "coordinator/raft/library.py": Adapter((Rule.THREADS,), "one Raft object is built at a time"),
    "coordinator/raft/raft_gate.py": Adapter((Rule.NETWORK, Rule.CLOCK), "the Raft port, with its deadlines"),
    "coordinator/raft/relays.py": Adapter(
        (Rule.NETWORK, Rule.THREADS, Rule.CLOCK), "ways out to the peers, on a loop of its own"
    ),
    "coordinator/raft/replica_thread.py": Adapter((Rule.THREADS,), "the thread that owns the Raft object"),
    "kube/crds/generate.py": Adapter(
        (Rule.DISK, Rule.PROCESS), "writes the generated chart and field tables; run by make only"
    ),
    "kube/http_transport.py": Adapter(
        (Rule.DISK,), "hands a client certificate to the TLS library, which reads files only"
    ),
    "dashboard/history_store.py": Adapter(
        (Rule.DISK,), "SQLite opens and locks its file by itself; the directory is locked through the seam"
    ),
    "provider/hook/processes.py": Adapter(
        (Rule.PROCESS, Rule.DISK), "runs hooks: pipes, process groups, signals"
    ),
    "cli/verbs/provider_admin.py": Adapter((Rule.PROCESS,), "names the user who resets marks offline"),
    "app/hook_provider/serve.py": Adapter(
        (Rule.PROCESS, Rule.DISK), "SIGHUP, and a private directory for blobs"
    ),
    "provider/conformance/system.py": Adapter(
        (Rule.PROCESS, Rule.NETWORK, Rule.DISK),
        "starts, kills and watches providers under test; their state and logs in a private directory",
    ),
    "provider/kit/admin.py": Adapter(
        (Rule.NETWORK, Rule.DISK), "the local socket for repairs, a file that only its owner can open"
    ),
    "testing/net/network.py": Adapter(
        (Rule.CLOCK,), "the virtual network: delays pass by the loop that all hosts share"
    ),
    "testing/net/calls.py": Adapter((Rule.CLOCK,), "the virtual network"),
    "testing/net/links.py": Adapter((Rule.CLOCK,), "the virtual network"),
    "clustersim/fleet.py": Adapter((Rule.DISK,), "reads the fleet file of the package"),
    "app/dashboard/beside.py": Adapter(
        (Rule.PROCESS,), "starts the dashboard of --dashboard-addr as a process"
    ),
    "dashboard/assets.py": Adapter((Rule.DISK,), "reads the files that the package brought along"),
    "dashboard/listener.py": Adapter(
        (Rule.NETWORK, Rule.CLOCK), "listens for browsers, with their deadlines"
    ),
    "dashboard/service.py": Adapter((Rule.NETWORK,), "hands on the certificate of its listener"),
    "dashboard/what_if.py": Adapter((Rule.PROCESS,), "runs what-if in a process of its own, under limits"),
    "dashboard/what_if_process.py": Adapter((Rule.DISK,), "lowers its own priority"),
    "cli/framework/dispatch.py": Adapter(
        (Rule.DISK,), "points standard output at nothing after a broken pipe"
    ),
    "bench/memory.py": Adapter((Rule.DISK,), "reads the resident size of the process from the kernel"),
    "bench/meter.py": Adapter((Rule.CLOCK,), "measures CPU and wall time of real work"),
    "cli/verbs/bench.py": Adapter((Rule.DISK,), "writes the figures where its argument says"),
    "cli/verbs/doctor/probes.py": Adapter(
        (Rule.CLOCK, Rule.NETWORK), "asks names, ports and handshakes from where it runs"
    ),
    "app/coordinator/serve.py": Adapter(
        (Rule.THREADS,), "the lock between the tables' readers and the thread of the log"
    ),
    "app/all_in_one/serve.py": Adapter((Rule.DISK,), "a temporary directory, unless one was given"),
    "app/dashboard/serve.py": Adapter((Rule.NETWORK,), "the certificate of its own listener"),
    "app/process.py": Adapter((Rule.CLOCK, Rule.PROCESS), "the surroundings of a real program"),
}


def check_tree(package: Path, adapters: Mapping[str, Adapter] = ADAPTERS) -> list[Finding]:
    """Return every finding below a package that no adapter covers, and every exemption that covers nothing."""
    findings: list[Finding] = []
    used: list[tuple[str, Rule]] = []
    for path in sorted(package.rglob("*.py")):
        if path.name.endswith(GENERATED):
            continue
        inside = path.relative_to(package).as_posix()
        adapter = adapters.get(inside)
        shown = f"{package.name}/{inside}"
        try:
            found = check_source(path.read_text(encoding="utf-8"), shown)
        except SyntaxError as error:
            findings.append(
                Finding(shown, error.lineno or 1, "only what parses can be checked", str(error.msg))
            )
            continue
        for rule, finding in found:
            if adapter is not None and rule in adapter.rules:
                used.append((inside, rule))
            else:
                findings.append(finding)
    for inside, adapter in adapters.items():
        for rule in adapter.rules:
            if (inside, rule) not in used:
                what = f"exempt from {rule.name} without need; take it off the list of adapters"
                findings.append(Finding(f"{package.name}/{inside}", 1, rule.value, what))
    return sorted(findings)


def main(argv: Sequence[str]) -> int:
    """Print one line per finding; return 1 if there is any."""
    package = Path(argv[0]) if argv else PACKAGE
    findings = check_tree(package)
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
