"""Lies about calls: missing or excessive fencing, wrong operation ids, machines that a call creates.

Rules: `providers#lies`.
"""

from typing import Final

from bigfleet.aio.net import Code, RpcRefusedError
from bigfleet.model.machine import MachineState as S
from bigfleet.provider.contract import EDGES, OperationKind
from bigfleet.provider.fake.lies.lie import InterceptedCall, Lie, fenced
from bigfleet.v1alpha1 import provider_pb2 as pb


class AckEarlyLie(Lie):
    """The answer to Configure says Configured, while Get still says Configuring."""

    name, on_acks = "ack-early", True

    def ack(self, intercepted: InterceptedCall, ack: pb.TransitionAck, /) -> None:
        if intercepted.rpc == "Configure" and self.hits():
            ack.machine.state = pb.MachineState.ValueType(int(S.CONFIGURED))


class AcceptStaleLie(Lie):
    """Stale tokens are accepted."""

    name = "accept-stale"

    def before(self, intercepted: InterceptedCall, /) -> None:
        if intercepted.mutating and self.hits():
            intercepted.without_token()


class FencePerShardLie(Lie):
    """There is one mark per shard: parallel calls of one shard for different machines fence each other."""

    name = "fence-per-shard"

    def start(self) -> None:
        self._marks: dict[str, tuple[int, int]] = {}

    def before(self, intercepted: InterceptedCall, /) -> None:
        if not intercepted.mutating or not intercepted.request.shard_id:
            return
        position = (intercepted.request.shard_epoch, intercepted.request.sequence_number)
        mark = self._marks.get(intercepted.request.shard_id)
        if mark is not None and position <= mark:
            raise fenced(intercepted)
        self._marks[intercepted.request.shard_id] = position
        intercepted.without_token()


class FenceAllLie(Lie):
    """Every mutating call is fenced."""

    name = "fence-all"

    def before(self, intercepted: InterceptedCall, /) -> None:
        if intercepted.mutating and self.hits():
            raise fenced(intercepted)


class FenceReadsLie(Lie):
    """Reads are fenced, although they carry no token."""

    name = "fence-reads"

    def before(self, intercepted: InterceptedCall, /) -> None:
        if not intercepted.mutating and self.hits():
            raise fenced(intercepted)


class FpForPositionLie(Lie):
    """A call for a machine in the wrong state is answered as fenced."""

    name = "fp-for-position"

    async def refused(
        self, intercepted: InterceptedCall, refusal: RpcRefusedError, /
    ) -> RpcRefusedError | None:
        if intercepted.mutating and refusal.code is Code.INTERNAL:
            return RpcRefusedError(Code.FAILED_PRECONDITION, refusal.detail)
        return refusal


class NewIdEachTimeLie(Lie):
    """A repeated call gets a new operation id."""

    name, on_acks = "new-id-each-time", True

    def start(self) -> None:
        self._given = 0

    def ack(self, _asked: InterceptedCall, ack: pb.TransitionAck, /) -> None:
        self._given += 1
        ack.operation_id = f"{ack.operation_id}-again-{self._given}"


class ReuseIdLie(Lie):
    """After a restart operation ids start again, so that two operations share one."""

    name, on_acks = "reuse-id", True

    def start(self) -> None:
        self._starts = self._provider.starts()
        self._given: dict[str, str] = {}

    def ack(self, _asked: InterceptedCall, ack: pb.TransitionAck, /) -> None:
        if self._starts != self._provider.starts():
            self._starts, self._given = self._provider.starts(), {}
        ack.operation_id = self._given.setdefault(ack.operation_id, f"op-{len(self._given) + 1}")


class EarlyConfiguredLie(Lie):
    """A machine is Configured when Configure has ended, Ready node or not; the backend applies it."""

    name = "early-configured"


class DrainRevertsLie(Lie):
    """A machine that was asked to drain is Configured again."""

    name, on_acks, on_records = "drain-reverts", True, True

    def start(self) -> None:
        self._reverted: dict[str, pb.Machine] = {}

    def ack(self, intercepted: InterceptedCall, ack: pb.TransitionAck, /) -> None:
        if intercepted.rpc == "Drain" and int(ack.machine.state) == S.DRAINING and self.hits():
            _freeze(self._reverted, ack.machine, S.CONFIGURED)

    def record(self, machine: pb.Machine, /) -> None:
        if machine.id in self._reverted and int(machine.state) in (S.DRAINING, S.IDLE):
            machine.CopyFrom(self._reverted[machine.id])


class StuckLie(Lie):
    """An accepted operation never ends: the machine stays transitional."""

    name, on_acks, on_records = "stuck", True, True

    def start(self) -> None:
        self._stuck: dict[str, pb.Machine] = {}

    def ack(self, intercepted: InterceptedCall, ack: pb.TransitionAck, /) -> None:
        during = EDGES[OperationKind(intercepted.rpc.lower())].during
        if int(ack.machine.state) == during and self.hits():
            _freeze(self._stuck, ack.machine, during)

    def record(self, machine: pb.Machine, /) -> None:
        if machine.id in self._stuck:
            machine.CopyFrom(self._stuck[machine.id])


class ImplicitCreateLie(Lie):
    """A call for an unknown machine creates it."""

    name = "implicit-create"

    async def refused(
        self, intercepted: InterceptedCall, refusal: RpcRefusedError, /
    ) -> RpcRefusedError | None:
        if intercepted.mutating and refusal.code is Code.NOT_FOUND:
            await self._provider.admit(intercepted.machine_id)
            intercepted.without_token()  # the honest provider has seen the token once
            return None
        return refusal


def _freeze(frozen: dict[str, pb.Machine], machine: pb.Machine, state: S) -> None:
    kept = pb.Machine()
    kept.CopyFrom(machine)
    kept.state = pb.MachineState.ValueType(int(state))
    frozen[machine.id] = kept


CALL_LIES: Final[tuple[type[Lie], ...]] = (
    AckEarlyLie,
    AcceptStaleLie,
    FencePerShardLie,
    FenceAllLie,
    FenceReadsLie,
    FpForPositionLie,
    NewIdEachTimeLie,
    ReuseIdLie,
    EarlyConfiguredLie,
    DrainRevertsLie,
    StuckLie,
    ImplicitCreateLie,
)
