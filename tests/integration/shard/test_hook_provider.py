"""A shard over the hook provider with its `process` set: demand to Ready to drain on one machine (`providers#hook-sets`)."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from bigfleet.aio.clock import SystemClock
from bigfleet.demo.session_peer import SessionPeer
from bigfleet.model.machine import MachineState
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.v1alpha1 import shard_pb2
from tests.support.builders import need
from tests.support.program import running

pytestmark = pytest.mark.integration

S = MachineState
INVENTORY = """
name: laptop
hook_set: process
machines:
  - {{id: p1, instance_type: proc, zone: here, capacity_type: on-demand, price_per_hour: 0.01,
      resources: {{cpu: 4}}, vars: {{dir: {dir}}}}}
"""
FREE = ("--metrics-addr", "127.0.0.1:0", "--log-format", "json")


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Path]:
    """Where the machines lie; each is a process that outlives its provider, as machines do, so it is ended here."""
    folder = tmp_path / "machines"
    yield folder
    for home in folder.glob("*"):
        command = Path("/proc", (home / "pid").read_text().strip(), "cmdline")
        if command.exists() and str(home) in command.read_text():
            os.killpg(int((home / "group").read_text()), signal.SIGTERM)


@pytest.mark.rule("providers#hook-sets")
@pytest.mark.asyncio
async def test_the_process_set_serves_demand_to_ready_to_drain(tmp_path: Path, machines: Path) -> None:
    inventory, joined = tmp_path / "inventory.yaml", tmp_path / "joined"
    inventory.write_text(INVENTORY.format(dir=machines))

    def blob(request: shard_pb2.BootstrapRequest) -> shard_pb2.BootstrapBlobResponse:
        script = f"echo {request.machine_id} >{joined}; sleep 1000 & echo $! >{tmp_path}/kubelet\n"
        return shard_pb2.BootstrapBlobResponse(request_id=request.request_id, user_data=script.encode())

    hooks = ("--inventory", str(inventory), "--state", str(tmp_path / "state"), "--addr", "127.0.0.1:0")
    async with running("bigfleet-hook-provider", *hooks, "--ready-interval", "100ms", *FREE) as provider:
        flags = ("--provider-addr", f"127.0.0.1:{provider.ports['port']}", "--cycle-interval", "500ms")
        where = ("--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0")
        async with running("bigfleet", "shard", *flags, *where, *FREE) as shard:
            channel = GrpcNet().dial(f"127.0.0.1:{shard.ports['port']}")
            async with SessionPeer(channel, "prod", SystemClock(), answer=blob) as operator:
                await operator.demand(need(cpu=4))
                await operator.until(lambda: operator.in_state(S.CONFIGURED) == ["p1"])
                assert joined.read_text() == "p1\n"
                await operator.demand()
                await operator.until(lambda: operator.last_state("p1") is S.IDLE)
                assert len(operator.instructions) == 1
            assert await shard.end() == 0
        assert await provider.end(signal.SIGTERM) == 0
