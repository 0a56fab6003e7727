"""Real coordinators with `bigfleetctl` beside them; the tool runs in this process, as its start costs more than its work."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any, TypeVar
from urllib.error import HTTPError
from urllib.request import urlopen

from bigfleet.aio.net import Net
from bigfleet.aio.service import UnaryMethod
from bigfleet.app.bigfleetctl import PROGRAM
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.dispatch import dispatch
from bigfleet.transport.coordinator import REPORT_SHARD
from bigfleet.transport.leader import LeaderClient
from bigfleet.transport.resolve import system_resolve
from bigfleet.v1alpha1 import coordinator_pb2 as pb
from tests.support.coordinator.processes import ProcessCluster

T = TypeVar("T")


@dataclass(frozen=True)
class Said:
    """What a run of the tool printed and ended with."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one object it printed."""
        return json.loads(self.out)


def bigfleetctl(*arguments: object, environ: dict[str, str] | None = None) -> Said:
    """Run the tool; never on a running loop."""
    out, err = StringIO(), StringIO()
    console = Console(PROGRAM, out, err, environ or {}, lambda: datetime.now(UTC))
    code = dispatch(console, [str(argument) for argument in arguments])
    return Said(code, out.getvalue(), err.getvalue())


class Running:
    """A cluster of real processes, driven from plain functions."""

    def __init__(self, cluster: ProcessCluster, runner: asyncio.Runner) -> None:
        self.cluster, self._runner = cluster, runner

    @property
    def addresses(self) -> str:
        return ",".join(member.grpc_address for member in self.cluster.members)

    def wait(self, what: Any) -> Any:
        """Wait for one of the cluster's facts."""
        return self._runner.run(what)

    def ctl(self, *arguments: object) -> Said:
        """Run the tool against all replicas."""
        return bigfleetctl("--coordinator", self.addresses, "--timeout", "20s", *arguments)

    def call(self, method: UnaryMethod[Any, T], request: object, net: Net | None = None) -> T:
        """Call the leader."""

        async def ask() -> T:
            addresses = [member.grpc_address for member in self.cluster.members]
            async with LeaderClient(net or self.cluster.net, addresses, resolve=system_resolve) as leader:
                return (await leader.unary(method, request, timeout_s=20)).message

        return self._runner.run(ask())

    def report(self, shard: str, cycle: int = 1, **fields: Any) -> pb.ReportAck:
        """Report as a shard."""
        fields.setdefault("shard_address", f"{shard}:7780")
        message = pb.ShardReport(shard_id=shard, cycle=cycle, shard_epoch=1, **fields)
        return self.call(REPORT_SHARD, message)

    def http(self, ordinal: int, path: str) -> tuple[int, str]:
        """Ask a replica's probes."""
        url = f"http://127.0.0.1:{self.cluster.members[ordinal].metrics_port}{path}"
        try:
            with urlopen(url, timeout=20) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode()


@contextmanager
def running(directory: Path, **options: Any) -> Iterator[Running]:
    """Start a cluster and wait until it serves; everything is ended at the end."""
    options.setdefault("proxied", False)
    with asyncio.Runner() as runner:
        cluster = ProcessCluster(directory, **options)
        runner.run(cluster.__aenter__())
        try:
            cluster.start_all()
            runner.run(cluster.leader() if len(cluster.members) == 1 else cluster.formed())
            yield Running(cluster, runner)
        finally:
            runner.run(cluster.__aexit__(None, None, None))
