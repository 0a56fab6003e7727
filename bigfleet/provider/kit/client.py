"""A plain client of the six calls, for tests of providers.

Why: a test says `await client.create("m-1", token)` and sees the answer or an `RpcError`; nothing is stamped, repeated or
interpreted on the way.
Must never: be used by a shard, whose client stamps the token and knows what each code means.
Rules: wire 3.7.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from bigfleet.aio.net import Channel
from bigfleet.model.machine import MachineState
from bigfleet.provider.kit.core.fence import NO_TOKEN, Token
from bigfleet.provider.kit.service import PROVIDER
from bigfleet.v1alpha1 import provider_pb2 as pb

CREATE: Final = PROVIDER.unary("Create", pb.CreateRequest, pb.TransitionAck)
CONFIGURE: Final = PROVIDER.unary("Configure", pb.ConfigureRequest, pb.TransitionAck)
DRAIN: Final = PROVIDER.unary("Drain", pb.DrainRequest, pb.TransitionAck)
DELETE: Final = PROVIDER.unary("Delete", pb.DeleteRequest, pb.TransitionAck)
GET: Final = PROVIDER.unary("Get", pb.MachineRef, pb.Machine)
LIST: Final = PROVIDER.unary("List", pb.ListFilter, pb.MachineList)


class ProviderClient:
    """Calls over one channel; a call without a token is one of nobody's."""

    def __init__(self, channel: Channel, timeout_s: float = 30.0) -> None:
        self._channel, self._timeout_s = channel, timeout_s

    async def create(self, machine_id: str, token: Token = NO_TOKEN) -> pb.TransitionAck:
        request = pb.CreateRequest(
            machine_id=machine_id,
            shard_id=token.shard_id,
            shard_epoch=token.epoch,
            sequence_number=token.sequence,
        )
        return (await self._channel.unary(CREATE, request, timeout_s=self._timeout_s)).message

    async def configure(
        self,
        machine_id: str,
        cluster: str,
        token: Token = NO_TOKEN,
        *,
        blob: bytes = b"",
        metadata: Mapping[str, str] | None = None,
    ) -> pb.TransitionAck:
        request = pb.ConfigureRequest(
            machine_id=machine_id,
            cluster_id=cluster,
            bootstrap_blob=blob,
            shard_id=token.shard_id,
            shard_epoch=token.epoch,
            sequence_number=token.sequence,
            shard_metadata=metadata or {},
        )
        return (await self._channel.unary(CONFIGURE, request, timeout_s=self._timeout_s)).message

    async def drain(self, machine_id: str, token: Token = NO_TOKEN, *, grace_s: int = 0) -> pb.TransitionAck:
        request = pb.DrainRequest(
            machine_id=machine_id,
            grace_period_seconds=grace_s,
            shard_id=token.shard_id,
            shard_epoch=token.epoch,
            sequence_number=token.sequence,
        )
        return (await self._channel.unary(DRAIN, request, timeout_s=self._timeout_s)).message

    async def delete(self, machine_id: str, token: Token = NO_TOKEN) -> pb.TransitionAck:
        request = pb.DeleteRequest(
            machine_id=machine_id,
            shard_id=token.shard_id,
            shard_epoch=token.epoch,
            sequence_number=token.sequence,
        )
        return (await self._channel.unary(DELETE, request, timeout_s=self._timeout_s)).message

    async def get(self, machine_id: str) -> pb.Machine:
        return (
            await self._channel.unary(GET, pb.MachineRef(id=machine_id), timeout_s=self._timeout_s)
        ).message

    async def list(
        self, states: Sequence[MachineState] = (), *, since: bytes = b"", at_most: int = 0
    ) -> pb.MachineList:
        request = pb.ListFilter(
            states=[pb.MachineState.ValueType(int(state)) for state in states],
            since_revision=since,
            max_results=at_most,
        )
        return (await self._channel.unary(LIST, request, timeout_s=self._timeout_s)).message
