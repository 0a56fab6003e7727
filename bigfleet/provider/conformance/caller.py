"""The six calls, each recorded; an error status is an answer here, not an exception.

Why: behaviours compare codes, so a refusal has to be a value, and every call has to be in the story of the behaviour.
Must never: retry, or interpret an answer.
Rules: `wire#provider`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from bigfleet.aio.net import Channel, Code, RpcError
from bigfleet.aio.service import UnaryMethod
from bigfleet.provider.conformance.calls import (
    NO_TOKEN,
    CallLog,
    CallToken,
    told_bytes,
    told_code,
    told_machine,
)
from bigfleet.provider.conformance.states import State, state_name
from bigfleet.provider.methods import CONFIGURE, CREATE, DELETE, DRAIN, GET, LIST
from bigfleet.v1alpha1 import provider_pb2 as pb

BLOB: Final = b"# conformance"

_Mutation = TypeVar("_Mutation", pb.CreateRequest, pb.ConfigureRequest, pb.DrainRequest, pb.DeleteRequest)


@dataclass(frozen=True, slots=True)
class MutationReply:
    """The answer to a mutating call; without success the id is empty and the record blank."""

    code: Code
    detail: str
    operation_id: str
    machine: pb.Machine

    @property
    def ok(self) -> bool:
        return self.code is Code.OK

    @property
    def fenced(self) -> bool:
        return self.code is Code.FAILED_PRECONDITION

    def __str__(self) -> str:
        return f"OK, operation {self.operation_id!r}" if self.ok else told_code(self.code, self.detail)


@dataclass(frozen=True, slots=True)
class GetReply:
    """The answer to Get."""

    code: Code
    detail: str
    machine: pb.Machine

    @property
    def ok(self) -> bool:
        return self.code is Code.OK

    def __str__(self) -> str:
        return told_machine(self.machine) if self.ok else told_code(self.code, self.detail)


@dataclass(frozen=True, slots=True)
class ListReply:
    """The answer to List."""

    code: Code
    detail: str
    machines: tuple[pb.Machine, ...]
    revision: bytes

    @property
    def ok(self) -> bool:
        return self.code is Code.OK

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids in the order of the answer, duplicates included."""
        return tuple(machine.id for machine in self.machines)

    def __str__(self) -> str:
        if not self.ok:
            return told_code(self.code, self.detail)
        return f"{len(self.machines)} machines, revision {told_bytes(self.revision)}"


class Caller:
    """One connection to a provider, with the log that its calls go to."""

    def __init__(self, channel: Channel, log: CallLog, deadline_s: float) -> None:
        self._channel, self._log, self._deadline_s = channel, log, deadline_s

    async def create(
        self, machine_id: str, token: CallToken = NO_TOKEN, *, timeout_s: float | None = None
    ) -> MutationReply:
        request = pb.CreateRequest(
            machine_id=machine_id,
            shard_id=token.shard,
            shard_epoch=token.epoch,
            sequence_number=token.sequence,
        )
        return await self._mutate(CREATE, request, f"Create {machine_id!r}, {token}", timeout_s)

    async def configure(
        self,
        machine_id: str,
        cluster: str,
        token: CallToken = NO_TOKEN,
        *,
        metadata: Mapping[str, str] | None = None,
        blob: bytes = BLOB,
    ) -> MutationReply:
        request = pb.ConfigureRequest(
            machine_id=machine_id,
            cluster_id=cluster,
            bootstrap_blob=blob,
            shard_id=token.shard,
            shard_epoch=token.epoch,
            sequence_number=token.sequence,
            shard_metadata=metadata or {},
        )
        size = f"{len(metadata or {})} metadata keys, blob of {len(blob)} bytes"
        asked = f"Configure {machine_id!r} for cluster {cluster!r}, {size}, {token}"
        return await self._mutate(CONFIGURE, request, asked)

    async def drain(self, machine_id: str, grace_s: int, token: CallToken = NO_TOKEN) -> MutationReply:
        request = pb.DrainRequest(
            machine_id=machine_id,
            grace_period_seconds=grace_s,
            shard_id=token.shard,
            shard_epoch=token.epoch,
            sequence_number=token.sequence,
        )
        return await self._mutate(DRAIN, request, f"Drain {machine_id!r} with grace {grace_s}, {token}")

    async def delete(self, machine_id: str, token: CallToken = NO_TOKEN) -> MutationReply:
        request = pb.DeleteRequest(
            machine_id=machine_id,
            shard_id=token.shard,
            shard_epoch=token.epoch,
            sequence_number=token.sequence,
        )
        return await self._mutate(DELETE, request, f"Delete {machine_id!r}, {token}")

    async def get(self, machine_id: str, *, poll: bool = False) -> GetReply:
        record = self._log.begin(f"Get {machine_id!r}", poll=poll)
        try:
            reply = await self._channel.unary(GET, pb.MachineRef(id=machine_id), timeout_s=self._deadline_s)
        except RpcError as error:
            sight = GetReply(error.code, error.detail, pb.Machine())
        else:
            sight = GetReply(Code.OK, "", reply.message)
        self._log.end(record, str(sight))
        return sight

    async def list(
        self,
        states: Sequence[State] = (),
        *,
        max_results: int = 0,
        since: bytes = b"",
        poll: bool = False,
    ) -> ListReply:
        asked = "List " + ("+".join(state_name(state) for state in states) or "all")
        asked += f", at most {max_results}" if max_results else ""
        asked += f", since {told_bytes(since)}" if since else ""
        record = self._log.begin(asked, poll=poll)
        request = pb.ListFilter(states=states, max_results=max_results, since_revision=since)
        try:
            reply = await self._channel.unary(LIST, request, timeout_s=self._deadline_s)
        except RpcError as error:
            listing = ListReply(error.code, error.detail, (), b"")
        else:
            listing = ListReply(Code.OK, "", tuple(reply.message.machines), reply.message.revision)
        self._log.end(record, str(listing))
        return listing

    async def close(self) -> None:
        """Give the connection back."""
        await self._channel.close()

    async def _mutate(
        self,
        method: UnaryMethod[_Mutation, pb.TransitionAck],
        request: _Mutation,
        asked: str,
        timeout_s: float | None = None,
    ) -> MutationReply:
        record = self._log.begin(asked, poll=False)
        try:
            reply = await self._channel.unary(method, request, timeout_s=timeout_s or self._deadline_s)
        except RpcError as error:
            ack = MutationReply(error.code, error.detail, "", pb.Machine())
            self._log.end(record, str(ack))
        else:
            ack = MutationReply(Code.OK, "", reply.message.operation_id, reply.message.machine)
            self._log.end(record, f"{ack}, {told_machine(ack.machine)}")
        return ack
