"""One shard under load: provider, shard and operators as three processes on this machine.

    python -m scaletest.bench.shard [CLUSTERS MACHINES [SECONDS]]

prints what was measured as JSON: the first listing, the storm of connections, the steady state with unchanged demand, the
steady state with a few changes a second, a burst of bootstraps. Full size is 5,000 clusters and 500,000 machines.
"""

import json
import subprocess
import sys
import time
from typing import Any

from scaletest.bench.shard_fleet import FleetSize

CLUSTERS, MACHINES, SECONDS = 5_000, 500_000, 40
CONCURRENCY = 256
BURST = 10_000


class _Child:
    """A process of the benchmark: one line in, one line out."""

    def __init__(self, module: str, *arguments: object) -> None:
        command = [sys.executable, "-m", f"scaletest.bench.{module}", *map(str, arguments)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def hear(self) -> Any:  # Any: whatever JSON the child prints
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._process.args!r} ended with {self._process.wait()}")
        return json.loads(line)

    def ask(self, words: str) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{words}\n")
        self._process.stdin.flush()
        return self.hear()

    def end(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()


def measure(clusters: int, machines: int, seconds: float) -> dict[str, Any]:
    """Run it once."""
    started: list[_Child] = []
    found: dict[str, Any] = {"clusters": clusters, "machines": machines, "phases": []}

    def note(phase: dict[str, Any]) -> None:
        found["phases"].append(phase)
        print(json.dumps(phase), file=sys.stderr, flush=True)  # it takes minutes; people look on

    try:
        provider = _Child("shard_provider", clusters, machines)
        started.append(provider)
        began = time.monotonic()
        provider_port = provider.hear()
        found["provider_seeded_s"] = round(time.monotonic() - began, 1)
        shard = _Child("shard_process", provider_port, CONCURRENCY, 1)
        started.append(shard)
        shard_port = shard.hear()
        wanted = FleetSize(clusters, machines).seeded
        while sum((answer := shard.ask("first listing"))["machines"].values()) < wanted:
            note(answer)
            time.sleep(1)
        note(answer)
        operators = _Child("shard_operators", shard_port, clusters, machines)
        started.append(operators)
        found["connecting"] = operators.hear()
        note(shard.ask("connection storm"))
        settle = operators.ask(f"steady {seconds / 2} 0")
        note(shard.ask("settling") | {"operators": settle})
        answer = operators.ask(f"steady {seconds} 0")
        note(shard.ask("steady, nothing changes") | {"operators": answer})
        answer = operators.ask(f"steady {seconds} 5")
        note(shard.ask("steady, five changes a second") | {"operators": answer})
        operators.ask("deaf 0")
        answer = operators.ask(f"steady {seconds / 2} 5")
        note(shard.ask("one operator does not read") | {"operators": answer})
        answer = operators.ask(f"burst {min(BURST, machines // 20)}")
        note(shard.ask("burst of bootstraps") | {"operators": answer})
    finally:
        for child in reversed(started):
            child.end()
    return found


if __name__ == "__main__":
    given = [float(text) for text in sys.argv[1:]]
    chosen = [*given, *(CLUSTERS, MACHINES, SECONDS)[len(given) :]]
    print(json.dumps(measure(int(chosen[0]), int(chosen[1]), chosen[2]), indent=2))
