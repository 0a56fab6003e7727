"""A client of the six calls that adds nothing to them, for tests of providers.

Why: a test says `await client.create("m-1", token)` and gets the reply or an `RpcError`.
Must never: be used by a shard, whose client sets the token and gives each code its meaning.
"""

from collections.abc import Mapping, Sequence

from bigfleet.aio.net import Channel
from bigfleet.model.machine import MachineState
from bigfleet.provider.kit.core.fence import NO_TOKEN, FencingToken
from bigfleet.provider.methods import CONFIGURE, CREATE, DELETE, DRAIN, GET, LIST, MutatingRequest
from bigfleet.v1alpha1 import provider_pb2 as pb


class RawProviderClient:
    """Calls over one channel; a call without a token takes no part in fencing."""

    def __init__(self, channel: Channel, timeout_s: float = 30.0) -> None:
        self._channel, self._timeout_s = channel, timeout_s

    async def create(self, machine_id: str, token: FencingToken = NO_TOKEN) -> pb.TransitionAck:
        request = _stamp(pb.CreateRequest(machine_id=machine_id), token)
        return (await self._channel.unary(CREATE, request, timeout_s=self._timeout_s)).message

    async def configure(
        self,
        machine_id: str,
        cluster: str,
        token: FencingToken = NO_TOKEN,
        *,
        blob: bytes = b"",
        metadata: Mapping[str, str] | None = None,
    ) -> pb.TransitionAck:
        request = pb.ConfigureRequest(
            machine_id=machine_id, cluster_id=cluster, bootstrap_blob=blob, shard_metadata=metadata or {}
        )
        reply = await self._channel.unary(CONFIGURE, _stamp(request, token), timeout_s=self._timeout_s)
        return reply.message

    async def drain(
        self, machine_id: str, token: FencingToken = NO_TOKEN, *, grace_s: int = 0
    ) -> pb.TransitionAck:
        request = _stamp(pb.DrainRequest(machine_id=machine_id, grace_period_seconds=grace_s), token)
        return (await self._channel.unary(DRAIN, request, timeout_s=self._timeout_s)).message

    async def delete(self, machine_id: str, token: FencingToken = NO_TOKEN) -> pb.TransitionAck:
        request = _stamp(pb.DeleteRequest(machine_id=machine_id), token)
        return (await self._channel.unary(DELETE, request, timeout_s=self._timeout_s)).message

    async def get(self, machine_id: str) -> pb.Machine:
        request = pb.MachineRef(id=machine_id)
        return (await self._channel.unary(GET, request, timeout_s=self._timeout_s)).message

    async def list(
        self, states: Sequence[MachineState] = (), *, since: bytes = b"", at_most: int = 0
    ) -> pb.MachineList:
        request = pb.ListFilter(
            states=[pb.MachineState.ValueType(int(state)) for state in states],
            since_revision=since,
            max_results=at_most,
        )
        return (await self._channel.unary(LIST, request, timeout_s=self._timeout_s)).message


def _stamp(request: MutatingRequest, token: FencingToken) -> MutatingRequest:
    request.shard_id, request.shard_epoch = token.shard_id, token.epoch
    request.sequence_number = token.sequence
    return request
