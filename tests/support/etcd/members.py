"""An etcd cluster of real processes, to be killed, paused and cut; the binary is that of the test control plane.

Why: what the log promises depends on what etcd does when it is killed, full, compacted or restored, and no fake knows that.
Must never: leave a process behind, or signal one that it did not start.
Rules: `coordinator#etcd-store`.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from bigfleet.aio.clock import SystemClock, monotonic_s
from bigfleet.aio.net import Net
from bigfleet.coordinator.etcd.client import EtcdClient, EtcdError
from bigfleet.transport.grpc_net import GrpcNet
from tests.support.control_plane.component import Component
from tests.support.coordinator.link_proxy import LinkProxy
from tests.support.coordinator.processes import PATIENCE_S, settled_port

_CLOCK = SystemClock()


class EtcdMember(Component):
    """One member with its ports."""

    def __init__(self, binary: Path, directory: Path, number: int) -> None:
        self.number = number
        self.client_port, self.peer_port = settled_port(), settled_port()
        self.data = directory / f"m{number}.etcd"
        self._place = binary, directory
        super().__init__(binary, directory, "etcd", (), f"m{number}")

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.client_port}"

    def configure(self, flags: Sequence[str]) -> None:
        """Set the flags of its next start."""
        self._command = (str(self._place[0]), "etcd", *flags)


class EtcdMembers:
    """One or three members; with `proxied`, members reach each other through proxies that can cut a link."""

    def __init__(
        self,
        binary: Path,
        directory: Path,
        *,
        members: int = 3,
        flags: Sequence[str] = (),
        proxied: bool = False,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.binary, self.directory, self._flags = binary, directory, tuple(flags)
        self.all = [EtcdMember(binary, directory, number) for number in range(members)]
        self.scheme = "http"
        self.proxies = [LinkProxy(member.peer_port, self._pids) for member in self.all] if proxied else []

    @property
    def addresses(self) -> list[str]:
        return [member.address for member in self.all]

    def client(self, net: Net | None = None, *, first: int = 0, call_s: float = 1.0) -> EtcdClient:
        """Return a client of all members."""
        return EtcdClient(net or GrpcNet(), self.addresses, _CLOCK, first=first, call_s=call_s)

    async def __aenter__(self) -> Self:
        for proxy in self.proxies:
            await proxy.start()
        try:
            self.start_all()
            await self.healthy()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_exception: object) -> None:
        for member in self.all:
            await asyncio.to_thread(member.kill)
        for proxy in self.proxies:
            await proxy.stop()

    def start_all(self, group: str = "etcd") -> None:
        """Start every member that does not run."""
        ports = [proxy.port for proxy in self.proxies] or [member.peer_port for member in self.all]
        everyone = ",".join(f"m{number}=http://127.0.0.1:{port}" for number, port in enumerate(ports))
        for member, port in zip(self.all, ports, strict=True):
            if member.pid is not None:
                continue
            url = f"{self.scheme}://{member.address}"
            member.configure(
                (
                    f"--name={member.name}",
                    f"--data-dir={member.data}",
                    "--unsafe-no-fsync",  # a killed process loses nothing that the kernel has
                    "--log-level=warn",
                    f"--listen-client-urls={url}",
                    f"--advertise-client-urls={url}",
                    f"--listen-peer-urls=http://127.0.0.1:{member.peer_port}",
                    f"--initial-advertise-peer-urls=http://127.0.0.1:{port}",
                    f"--initial-cluster={everyone}",
                    f"--initial-cluster-token={group}",
                    *self._flags,
                )
            )
            member.start()

    async def healthy(self, client: EtcdClient | None = None) -> None:
        """Wait until the cluster answers a linearizable read."""
        asked = client or self.client()
        try:
            give_up_s = monotonic_s(_CLOCK) + PATIENCE_S
            while True:
                for member in self.all:
                    member.check()
                try:
                    await asked.range(b"healthy")
                    return
                except EtcdError:
                    if monotonic_s(_CLOCK) > give_up_s:
                        raise TimeoutError(f"etcd does not answer: {self.tails()}") from None
                    await _CLOCK.sleep(0.05)
        finally:
            if client is None:
                await asked.close()

    async def kill(self, *numbers: int) -> None:
        """End members without any farewell."""
        for number in numbers:
            await asyncio.to_thread(self.all[number].kill)

    def cut(self, number: int) -> None:
        """Cut one member off from all others, in both directions; needs `proxied`."""
        for other in range(len(self.all)):
            if other != number:
                self.proxies[number].block(other)
                self.proxies[other].block(number)

    def heal(self) -> None:
        """Let everything pass again."""
        for proxy in self.proxies:
            proxy.unblock()

    def tails(self) -> str:
        """Return the ends of all logs, for a failure's message."""
        return "\n".join(f"--- {member.name}\n{member.log_tail()}" for member in self.all)

    def _pids(self) -> dict[int, int]:
        return {member.number: member.pid for member in self.all if member.pid is not None}
