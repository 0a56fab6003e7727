"""The seam check: production code reaches the outside through seams only, but for the adapters listed here.

Why: the simulator promises that one seed is one run; a single forgotten `time.time()` breaks that for good and unnoticed.
Called by: `make seams` (`python -m tests.architecture.seams`), and `tests.architecture.test_seams` in every test run.
Must never: know a per-line escape. The list below is the only way around, module by module and rule by rule, and an entry
that is no longer needed is itself a finding.
Rules: simulator 2.2.
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
    "aio/system_disk.py": Adapter((Rule.DISK,), "the system disk"),
    "aio/proc.py": Adapter((Rule.PROCESS,), "signals and exits of the real process"),
    "transport/__init__.py": Adapter(
        (Rule.PROCESS,), "gRPC takes its cipher suites from the environment only"
    ),
    "transport/dev_ca.py": Adapter((Rule.DISK,), "writes and reads development certificates"),
    "transport/grpc_server.py": Adapter((Rule.NETWORK,), "the system network"),
    "transport/http.py": Adapter(
        (Rule.NETWORK, Rule.CLOCK), "probes over real sockets, with their deadlines"
    ),
    "transport/tls.py": Adapter(
        (Rule.DISK, Rule.THREADS), "certificate files, asked for on the threads of gRPC"
    ),
    "testing/certificates.py": Adapter((Rule.DISK,), "certificate files for tests over real sockets"),
    "testing/net.py": Adapter(
        (Rule.CLOCK,), "the virtual network: delays pass by the loop that all hosts share"
    ),
    "testing/net_calls.py": Adapter((Rule.CLOCK,), "the virtual network"),
    "testing/net_links.py": Adapter((Rule.CLOCK,), "the virtual network"),
    "cli/dispatch.py": Adapter((Rule.DISK,), "points standard output at nothing after a broken pipe"),
    "cli/decide.py": Adapter((Rule.DISK,), "reads the document that its argument names"),
    "cli/load.py": Adapter((Rule.DISK,), "reads the file of --config, before there is any seam"),
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
