"""Violations of the fence: A17 to A22, B3xx, B405, B1201, B1204, B1205.

Must never: be honest.
"""

from typing import ClassVar

from bigfleet.aio.clock import Clock
from bigfleet.aio.net import Call, Code, RpcRefusedError
from bigfleet.provider.conformance.reference.model import ReferenceProvider
from bigfleet.provider.conformance.reference.values import (
    Mutation,
    ReferenceOperation,
    ReferenceOptions,
    ReferenceRecord,
    ReferenceStore,
    ReferenceToken,
)
from bigfleet.provider.conformance.states import I
from bigfleet.v1alpha1 import provider_pb2 as pb
from tests.support.conformance.violation import violation

_WRAP = 2**64
_MAX = 2**63 - 1


@violation("equal-token-passes", "A17")
class EqualTokenPasses(ReferenceProvider):
    """A replayed token passes."""

    def newer(self, token: ReferenceToken, mark: tuple[int, int] | None) -> bool:
        return mark is None or token.pair >= mark


@violation("epoch-ignored", "A18")
class EpochIgnored(ReferenceProvider):
    """Only the sequence is compared."""

    def newer(self, token: ReferenceToken, mark: tuple[int, int] | None) -> bool:
        return mark is None or token.sequence > mark[1]


@violation("sequence-ignored", "A19")
class SequenceIgnored(ReferenceProvider):
    """Only the epoch is compared."""

    def newer(self, token: ReferenceToken, mark: tuple[int, int] | None) -> bool:
        return mark is None or token.epoch >= mark[0]


@violation("accept-stale", "A17")
class AcceptStale(ReferenceProvider):
    """There is no fence."""

    def fence(self, kind: ReferenceOperation, machine_id: str, token: ReferenceToken) -> None:
        pass


@violation("fence-per-shard", "A20")
class FencePerShard(ReferenceProvider):
    """A shard has one mark for all machines."""

    def mark_key(self, kind: ReferenceOperation, machine_id: str, token: ReferenceToken) -> tuple[str, ...]:
        return (token.shard,)


@violation("epoch-keeps-sequence", "A21")
class EpochKeepsSequence(ReferenceProvider):
    """A higher epoch must go on with a higher sequence."""

    def newer(self, token: ReferenceToken, mark: tuple[int, int] | None) -> bool:
        return mark is None or (token.pair > mark and token.sequence > mark[1])


class _RemembersStale(ReferenceProvider):
    def __init__(self, clock: Clock, options: ReferenceOptions, store: ReferenceStore | None = None) -> None:
        self.stale: set[str] = set()
        super().__init__(clock, options, store)

    def fence(self, kind: ReferenceOperation, machine_id: str, token: ReferenceToken) -> None:
        try:
            super().fence(kind, machine_id, token)
        except RpcRefusedError:
            self.stale.add(machine_id)
            raise


@violation("fence-reads", "A22")
class FenceReads(_RemembersStale):
    """A machine on which a call was fenced cannot be read."""

    async def get(self, request: pb.MachineRef, call: Call) -> pb.Machine:
        if request.id in self.stale:
            raise RpcRefusedError(Code.FAILED_PRECONDITION, "fenced")
        return await super().get(request, call)


@violation("stale-call-hides-machine", "B305")
class StaleCallHidesMachine(_RemembersStale):
    """A machine on which a call was fenced is no longer listed."""

    def matches(self, record: ReferenceRecord, request: pb.ListFilter, since: int | None) -> bool:
        return record.machine.id not in self.stale and super().matches(record, request, since)


@violation("negative-token-fenced", "B211")
class NegativeTokenFenced(ReferenceProvider):
    """A token with a negative part is taken for stale."""

    def newer(self, token: ReferenceToken, mark: tuple[int, int] | None) -> bool:
        return min(token.pair) >= 0 and super().newer(token, mark)


@violation("greatest-token-overflows", "B212")
class GreatestTokenOverflows(ReferenceProvider):
    """The fence computes epoch + 1 in 64 bits."""

    def newer(self, token: ReferenceToken, mark: tuple[int, int] | None) -> bool:
        return mark is None or (_next(token.epoch), token.sequence) > (_next(mark[0]), mark[1])


def _next(number: int) -> int:
    return number + 1 if number < _MAX else number + 1 - _WRAP


@violation("existence-before-fence", "B301")
class ExistenceBeforeFence(ReferenceProvider):
    """An unknown machine is not found before its token is looked at."""

    def fence(self, kind: ReferenceOperation, machine_id: str, token: ReferenceToken) -> None:
        self.find(machine_id)
        super().fence(kind, machine_id, token)


@violation("fence-all", "B302")
class FencePerMachine(ReferenceProvider):
    """A machine has one mark for all shards."""

    def mark_key(self, kind: ReferenceOperation, machine_id: str, token: ReferenceToken) -> tuple[str, ...]:
        return (machine_id,)


@violation("zero-sequence-stale", "B303")
class ZeroSequenceStale(ReferenceProvider):
    """A new epoch may not begin at sequence 0."""

    def newer(self, token: ReferenceToken, mark: tuple[int, int] | None) -> bool:
        return super().newer(token, mark) and (mark is None or token.sequence > 0)


class _RepeatBeforeFence(ReferenceProvider):
    kind: ClassVar[ReferenceOperation]

    def fence(self, kind: ReferenceOperation, machine_id: str, token: ReferenceToken) -> None:
        record = self.store.records.get(machine_id)
        if kind is self.kind and record is not None and self.repeated(kind, record, token):
            return
        super().fence(kind, machine_id, token)


@violation("configure-repeat-before-fence", "B306")
class ConfigureRepeatBeforeFence(_RepeatBeforeFence):
    """A repeated Configure is answered before its token is looked at."""

    kind = ReferenceOperation.CONFIGURE


@violation("drain-repeat-before-fence", "B307")
class DrainRepeatBeforeFence(_RepeatBeforeFence):
    """A repeated Drain is answered before its token is looked at."""

    kind = ReferenceOperation.DRAIN


@violation("empty-token-refused-at-rest", "B308")
class EmptyTokenRefusedAtRest(ReferenceProvider):
    """A repeated Create of an Idle machine needs a token."""

    def fence(self, kind: ReferenceOperation, machine_id: str, token: ReferenceToken) -> None:
        record = self.store.records.get(machine_id)
        if (
            token.empty
            and kind is ReferenceOperation.CREATE
            and record is not None
            and record.machine.state == I
        ):
            raise RpcRefusedError(Code.INVALID_ARGUMENT, "a token is required")
        super().fence(kind, machine_id, token)


class _CountsCalls(ReferenceProvider):
    def __init__(self, clock: Clock, options: ReferenceOptions, store: ReferenceStore | None = None) -> None:
        self.counts: dict[tuple[str, ...], int] = {}
        super().__init__(clock, options, store)

    def fence(self, kind: ReferenceOperation, machine_id: str, token: ReferenceToken) -> None:
        key = self.mark_key(kind, machine_id, token)
        self.counts[key] = self.counts.get(key, 0) + 1
        super().fence(kind, machine_id, token)


@violation("fence-forgets-after-five", "B309")
class FenceForgetsAfterFive(_CountsCalls):
    """Every fifth call of a pair wipes its mark."""

    def fence(self, kind: ReferenceOperation, machine_id: str, token: ReferenceToken) -> None:
        super().fence(kind, machine_id, token)
        key = self.mark_key(kind, machine_id, token)
        if self.counts[key] % 5 == 0:
            self.store.marks.pop(key, None)


@violation("mark-per-kind", "B310")
class MarkPerKind(ReferenceProvider):
    """Each kind of call has a mark of its own."""

    def mark_key(self, kind: ReferenceOperation, machine_id: str, token: ReferenceToken) -> tuple[str, ...]:
        return token.shard, machine_id, kind.value


@violation("rejection-keeps-mark", "B311")
class RejectionKeepsMark(ReferenceProvider):
    """A call that is rejected does not move the mark."""

    async def mutate(self, kind: ReferenceOperation, request: Mutation, call: Call) -> pb.TransitionAck:
        marks = dict(self.store.marks)
        try:
            return await super().mutate(kind, request, call)
        except RpcRefusedError:
            self.store.marks = marks
            raise


@violation("fence-tires", "B312")
class FenceTires(_CountsCalls):
    """After 150 calls of a pair every token passes."""

    def newer(self, token: ReferenceToken, mark: tuple[int, int] | None) -> bool:
        return super().newer(token, mark) or max(self.counts.values()) > 150


@violation("fence-open-under-load", "B405")
class FenceOpenUnderLoad(ReferenceProvider):
    """From the ninth call within a millisecond on every token passes."""

    _millisecond, _calls = -1, 0

    def newer(self, token: ReferenceToken, mark: tuple[int, int] | None) -> bool:
        now = self.clock.monotonic_ns() // 1_000_000
        self._calls = self._calls + 1 if now == self._millisecond else 1
        self._millisecond = now
        return self._calls > 8 or super().newer(token, mark)


@violation("sequence-in-32-bits", "B1201")
class SequenceIn32Bits(ReferenceProvider):
    """Only the lower half of a sequence is compared."""

    def newer(self, token: ReferenceToken, mark: tuple[int, int] | None) -> bool:
        if mark is None:
            return True
        return (token.epoch, token.sequence % 2**32) > (mark[0], mark[1] % 2**32)


@violation("negative-token-refused", "B1201")
class NegativeTokenRefused(ReferenceProvider):
    """A negative part is refused as an argument before the token is compared."""

    def fence(self, kind: ReferenceOperation, machine_id: str, token: ReferenceToken) -> None:
        if min(token.pair) < 0:
            raise RpcRefusedError(Code.INVALID_ARGUMENT, "a token is not negative")
        super().fence(kind, machine_id, token)


@violation("sequence-unsigned", "B1204")
class SequenceUnsigned(ReferenceProvider):
    """A negative sequence is compared as a very large number without a sign."""

    def newer(self, token: ReferenceToken, mark: tuple[int, int] | None) -> bool:
        if mark is None:
            return True
        return (token.epoch, token.sequence % _WRAP) > (mark[0], mark[1] % _WRAP)


@violation("marks-of-two-shards", "B1204")
class MarksOfTwoShards(ReferenceProvider):
    """A machine keeps the marks of two shards only."""

    def fence(self, kind: ReferenceOperation, machine_id: str, token: ReferenceToken) -> None:
        super().fence(kind, machine_id, token)
        mine = [key for key in self.store.marks if key[1] == machine_id]
        if len(mine) > 2:
            self.store.marks.pop(mine[0])


@violation("large-epoch-fenced", "B1205")
class LargeEpochFenced(ReferenceProvider):
    """A first contact with an epoch beyond 31 bits is taken for stale."""

    def newer(self, token: ReferenceToken, mark: tuple[int, int] | None) -> bool:
        return super().newer(token, mark) and (mark is not None or token.epoch < 2**31)


@violation("nameless-shard-fenced", "X02")
class NamelessShardFenced(ReferenceProvider):
    """A token without a shard is taken for stale."""

    def newer(self, token: ReferenceToken, mark: tuple[int, int] | None) -> bool:
        return bool(token.shard) and super().newer(token, mark)
