"""Three coordinators as real processes on loopback, to be killed, paused and cut from each other.

Why: what must survive a kill -9 is shown by killing; everything here is real but the hosts.
Must never: leave a process behind, or end one that it did not start.
Rules: `coordinator#failures`.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Self

from bigfleet.aio.clock import Clock, SystemClock, monotonic_s
from bigfleet.aio.net import Net, RpcError
from bigfleet.coordinator.raft.raft_gate import LOOPBACK
from bigfleet.transport.coordinator import LIST_SHARDS, ReplicaFacts, facts_of
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.v1alpha1 import coordinator_pb2 as pb
from tests.support.coordinator.fork_server import PROGRAM, ForkedProcess, fork_server
from tests.support.coordinator.link_proxy import LinkProxy

_MAIN = f"import sys; from {PROGRAM} import main; sys.exit(main(sys.argv[1:]))"
_LIMIT = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({0}, {0})); "
_tried = count()
PATIENCE_S = 60.0
"""How long a fact may take on a loaded machine; tests wait for the fact and not for the time."""


def settled_port() -> int:
    """Return a free loopback port that stays free until it is listened on.

    One that the system hands out may be given to anybody's outgoing connection a moment later; these lie below its range.
    """
    while True:
        port = 10_000 + (os.getpid() * 131 + next(_tried)) % 22_000
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe, suppress(OSError):
            probe.bind((LOOPBACK, port))
            return port


class Coordinator:
    """One process with its directory and ports."""

    def __init__(self, ordinal: int, directory: Path) -> None:
        self.ordinal, self.directory = ordinal, directory
        self.node_id = f"coordinator-{ordinal}"
        self.grpc_port, self.raft_port, self.metrics_port = settled_port(), settled_port(), settled_port()
        self.data_dir = directory / f"data-{ordinal}"
        self.log_path = directory / f"{self.node_id}.log"
        self.process: subprocess.Popen[bytes] | ForkedProcess | None = None
        self.checkout: Path | None = None
        """The checkout whose version it runs from its next start on; None for the one of this module."""

    @property
    def grpc_address(self) -> str:
        return f"127.0.0.1:{self.grpc_port}"

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def log_text(self) -> str:
        """Return what the process has logged so far, over all its lives."""
        return self.log_path.read_text() if self.log_path.exists() else ""


class ProcessCluster:
    """Three coordinators behind proxies on their Raft ports; use it as a context."""

    def __init__(
        self,
        directory: Path,
        *,
        flags: Sequence[str] = (),
        flags_of: Mapping[int, Sequence[str]] | None = None,
        net: Net | None = None,
        secrets: Mapping[int, bytes] | None = None,
        replicas: int = 3,
        proxied: bool = True,
        forked: bool = True,
        descriptors: int | None = None,
    ) -> None:
        """Without proxies no link can be cut, and the caller's own load does not slow the links down.

        Forked processes start at once; the others are started as a user would, which costs a second of processor time each.
        With `descriptors` no process may have more of them; such processes are never forked.
        """
        self._forked = forked and descriptors is None
        self._main = _MAIN if descriptors is None else _LIMIT.format(descriptors) + _MAIN
        self.directory, self._flags, self._flags_of = directory, tuple(flags), dict(flags_of or {})
        self.net = net or GrpcNet()
        self._clock: Clock = SystemClock()
        self._secrets = dict(secrets or {})
        self.members = [Coordinator(ordinal, directory) for ordinal in range(replicas)]
        self.proxies = [LinkProxy(member.raft_port, self.pids) for member in self.members] if proxied else []

    async def __aenter__(self) -> Self:
        for proxy in self.proxies:
            await proxy.start()
        return self

    async def __aexit__(self, *_exception: object) -> None:
        for member in self.members:
            if member.process is not None and member.process.poll() is None:
                member.process.send_signal(signal.SIGCONT)
                member.process.kill()
                await asyncio.to_thread(member.process.wait)
        for proxy in self.proxies:
            await proxy.stop()

    def start(self, ordinal: int, *more: str) -> Coordinator:
        """Start a process; it takes its time to form or join."""
        member = self.members[ordinal]
        secret = self.directory / f"secret-{ordinal}"
        secret.write_bytes(self._secrets.get(ordinal, b"s" * 32))
        ports = [proxy.port for proxy in self.proxies] or [other.raft_port for other in self.members]
        peers = ",".join(
            f"{other.node_id}@127.0.0.1:{port}@{other.grpc_address}"
            for other, port in zip(self.members, ports, strict=True)
        )
        command = ["coordinator", "--id", member.node_id]
        command += ["--listen", member.grpc_address, "--raft-bind", f"127.0.0.1:{member.raft_port}"]
        command += ["--metrics-addr", f"127.0.0.1:{member.metrics_port}", "--data-dir", str(member.data_dir)]
        command += ["--replicas", str(len(self.members)), "--peers", peers, "--bootstrap"]
        command += ["--raft-secret-file", str(secret), "--log-format", "json"]
        command += [*self._flags, *self._flags_of.get(ordinal, ()), *more]
        if self._forked and member.checkout is None:
            member.process = fork_server().start(PROGRAM, command, member.log_path)
            return member
        whole = [sys.executable, "-c", self._main, *command]
        with member.log_path.open("ab") as log:
            member.process = subprocess.Popen(
                whole, stdout=log, stderr=log, env=_environment(member.checkout), cwd=member.checkout
            )
        return member

    def start_all(self, *more: str) -> None:
        """Start every replica that does not run."""
        for member in self.members:
            if not member.is_running:
                self.start(member.ordinal, *more)

    async def kill(self, *ordinals: int) -> None:
        """End processes without any farewell, all at once."""
        processes = [self.members[ordinal].process for ordinal in ordinals]
        for process in processes:
            if process is not None:
                process.kill()
        for process in processes:
            if process is not None:
                await asyncio.to_thread(process.wait)

    def signal(self, ordinal: int, number: signal.Signals) -> None:
        """Send a signal: SIGSTOP, SIGCONT, SIGTERM."""
        process = self.members[ordinal].process
        if process is not None:
            process.send_signal(number)

    async def exit_code(self, ordinal: int) -> int:
        """Wait for a process to end by itself and return its code."""
        process = self.members[ordinal].process
        if process is None:
            raise LookupError(f"coordinator-{ordinal} was not started")
        return await asyncio.to_thread(process.wait, PATIENCE_S)

    def cut(self, one: int, two: int) -> None:
        """Cut the link between two replicas on the Raft port, in both directions."""
        self.proxies[one].block(two)
        self.proxies[two].block(one)

    def passed(self, one: int, two: int) -> int:
        """Return how many bytes have passed between two replicas so far; they stop rising where a cut is in force."""
        return self.proxies[one].passed[two] + self.proxies[two].passed[one]

    def heal(self) -> None:
        """Let everything pass again."""
        for proxy in self.proxies:
            proxy.unblock()

    async def facts(self, ordinal: int, timeout_s: float = 5.0) -> ReplicaFacts | None:
        """Return what a replica says of itself, None if it does not answer."""
        channel = self.net.dial(self.members[ordinal].grpc_address)
        try:
            reply = await channel.unary(LIST_SHARDS, pb.ListShardsRequest(), timeout_s=timeout_s)
        except RpcError as error:
            return facts_of(error.trailing) if error.trailing else None
        finally:
            await channel.close()
        return facts_of(reply.trailing)

    async def leader(self, *, among: Sequence[int] | None = None, patience_s: float = PATIENCE_S) -> int:
        """Wait for a serving replica and return its ordinal."""
        give_up_s = monotonic_s(self._clock) + patience_s
        while monotonic_s(self._clock) < give_up_s:
            for ordinal in range(len(self.members)) if among is None else among:
                if self.members[ordinal].is_running:
                    facts = await self.facts(ordinal, timeout_s=1.0)
                    if facts is not None and facts.raft_state == "serving":
                        return ordinal
            await self._clock.sleep(0.05)
        raise TimeoutError(f"no replica serves: {self.tails()}")

    async def formed(self, patience_s: float = PATIENCE_S) -> int:
        """Wait until all replicas are full members and one serves; return its ordinal."""
        give_up_s = monotonic_s(self._clock) + patience_s
        while monotonic_s(self._clock) < give_up_s:
            facts = [await self.facts(member.ordinal) for member in self.members]
            states = [fact.raft_state for fact in facts if fact is not None and fact.membership == "full"]
            if len(states) == len(self.members) and "serving" in states and "learner" not in states:
                return next(
                    n for n, fact in enumerate(facts) if fact is not None and fact.raft_state == "serving"
                )
            await self._clock.sleep(0.1)
        raise TimeoutError(f"the cluster did not form: {self.tails()}")

    def tails(self) -> str:
        """Return the ends of all logs, for a failure's message."""
        return "\n".join(f"--- {member.node_id}\n{member.log_text()[-1500:]}" for member in self.members)

    def pids(self) -> dict[int, int]:
        """Return the process ids by ordinal."""
        return {m.ordinal: m.process.pid for m in self.members if m.process is not None}


def _environment(checkout: Path | None) -> dict[str, str]:
    path = {} if checkout is None else {"PYTHONPATH": str(checkout)}
    return {**os.environ, "PYTHONUNBUFFERED": "1", **path}
