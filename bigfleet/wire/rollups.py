"""Roll-ups: a cluster's complete demand, as message and as needs.

Why: a roll-up replaces everything its cluster asked for, so one bad row must refuse the whole, with nothing applied.
Must never: accept a row it cannot read in full, demand in another cluster's name, or one beyond its limits.
Rules: `wire#rollup`, `wire#need-identity`, `wire#rollup-limits`, `wire#arrival-time`; rows are remembered by their bytes,
since a roll-up is resent whole every few seconds.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from google.protobuf.message import DecodeError

from bigfleet.model.buckets import checked_bucket
from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.need import Need
from bigfleet.model.profile import Profile, Spread
from bigfleet.model.resources import Resources
from bigfleet.model.times import NANOSECONDS
from bigfleet.v1alpha1 import capacity_pb2 as pb
from bigfleet.wire.raw import twin_of
from bigfleet.wire.requirements import (
    requirement_from_proto,
    requirements_to_proto,
    spread_from_proto,
    spreads_to_proto,
)
from bigfleet.wire.rollup_limits import (
    RollupLimits,
    check_lists,
    check_requirement,
    check_row_size,
    check_spread,
    checked_max_units,
)

SLICE_ROWS: Final = 500
"""Rows between two pauses, some hundredths of a second of work: what another cluster waits for its turn."""
SLICE_BYTES: Final = 1 << 20
"""The same for rows that are long."""
ARRIVAL_WINDOW_NS: Final = 300 * NANOSECONDS
"""How far a roll-up's time may be from that of the shard. Clocks of one fleet differ by less."""
_REMEMBERED_ROWS: Final = 4096  # many times the rows of most clusters; each session has its own reader
_REMEMBERED_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class Rollup:
    """One cluster's whole demand at one moment."""

    cluster: str
    arrival_ns: int
    needs: tuple[Need, ...]


@dataclass(frozen=True, slots=True)
class _Row:
    profile: Profile
    total: Resources
    unit: Resources
    group: str
    max_units: int
    for_fragments: bool
    fingerprint: str
    """The profile's, made with the row: large roll-ups are read in a thread, and applied where all clusters wait."""


class _SeenRows:
    """The rows of one roll-up by their bytes, as many as are worth keeping until the next one."""

    def __init__(self) -> None:
        self.rows: dict[bytes, _Row] = {}
        self._bytes = 0

    def add(self, data: bytes, row: _Row) -> None:
        if len(self.rows) < _REMEMBERED_ROWS and self._bytes <= _REMEMBERED_BYTES and data not in self.rows:
            self.rows[data] = row
            self._bytes += len(data)


class RollupReader:
    """Reads the roll-ups of one session; a row that was seen before costs a look-up."""

    def __init__(
        self,
        cluster: str,
        limits: RollupLimits = RollupLimits(),  # noqa: B008  immutable
        now_ns: Callable[[], int] | None = None,
    ) -> None:
        """With `now_ns`, the time of the shard, a roll-up of another time counts as built when it was read."""
        self._cluster, self._limits, self._now_ns = cluster, limits, now_ns
        self._seen = _SeenRows()

    def read(self, data: bytes) -> Rollup:
        """Make needs of an encoded roll-up, or refuse it whole, naming the row and field."""
        reading = self.in_slices(data)
        while True:
            try:
                next(reading)
            except StopIteration as end:
                whole: Rollup = end.value
                return whole

    def in_slices(self, data: bytes) -> Generator[None, None, Rollup]:
        """Read as `read` does, and pause every `SLICE_ROWS` rows or `SLICE_BYTES`, so that readers of many clusters can take turns."""
        self._limits.check_size(len(data))
        try:
            message = _RAW_ROLLUP.FromString(data)
        except DecodeError:
            raise InvalidFieldError(
                "rollup", f"{len(data)} bytes", "an encoded ClusterCapacityNeeds"
            ) from None
        del data  # the message has its own copy, and reading goes on for seconds
        found = message.cluster_id  # type: ignore[attr-defined]  # a derived class has no stub
        if found and found != self._cluster:
            raise InvalidFieldError(
                "cluster_id", found, f"empty or {self._cluster!r}, the cluster of this session"
            )
        encoded = message.needs  # type: ignore[attr-defined]
        self._limits.check_rows(len(encoded))
        arrival_ns = self._arrival_ns(message.timestamp_unix_nanos)  # type: ignore[attr-defined]
        needs: list[Need] = []
        seen = _SeenRows()
        while len(needs) < len(encoded):
            if needs:
                yield
            rows = self._read_rows(encoded, len(needs), seen)
            needs += [
                Need(
                    self._cluster,
                    row.profile,
                    row.total,
                    row.unit,
                    arrival_ns,
                    row.group,
                    row.max_units,
                    row.for_fragments,
                )
                for row in rows
            ]
        self._seen = seen  # the rows of this roll-up alone, so that withdrawn demand is not kept
        return Rollup(self._cluster, arrival_ns, tuple(needs))

    def _arrival_ns(self, built_ns: int) -> int:
        """Since when the demand of a roll-up counts: earlier arrivals go first, so a claim must be plausible."""
        if self._now_ns is None:
            return built_ns
        now_ns = self._now_ns()
        return built_ns if abs(built_ns - now_ns) <= ARRIVAL_WINDOW_NS else now_ns

    def _read_rows(self, encoded: Sequence[bytes], first: int, seen: _SeenRows) -> list[_Row]:
        """Read rows until it is time for a pause."""
        rows: list[_Row] = []
        size = 0
        for place in range(first, min(len(encoded), first + SLICE_ROWS)):
            data = encoded[place]
            row = seen.rows.get(data) or self._seen.rows.get(data)
            if row is None:
                check_row_size(data, f"needs[{place}]")
                row = _read_row(data, f"needs[{place}]")
            rows.append(row)
            seen.add(data, row)
            size += len(data)
            if size >= SLICE_BYTES:
                break
        return rows


_RAW_ROLLUP = twin_of(pb.ClusterCapacityNeeds.DESCRIPTOR)


def _read_row(data: bytes, place: str) -> _Row:
    try:
        message = pb.CapacityNeed.FromString(data)
    except DecodeError:
        raise InvalidFieldError(place, f"{len(data)} bytes", "an encoded CapacityNeed") from None
    try:
        return _row_from_proto(message)
    except InvalidFieldError as error:
        raise error.under(place) from None


def _row_from_proto(message: pb.CapacityNeed) -> _Row:
    check_lists(message)
    requirements = []
    for place, item in enumerate(message.requirements):
        try:
            check_requirement(item)
            requirements.append(requirement_from_proto(item))
        except InvalidFieldError as error:
            raise error.under(f"requirements[{place}]") from None
    profile = Profile(
        requirements=tuple(requirements),
        spreads=tuple(_spreads(message.spread)),
        priority=message.priority,
        interruption_bucket=checked_bucket(
            message.interruption_penalty_bucket, "interruption_penalty_bucket"
        ),
        reclamation_bucket=checked_bucket(message.reclamation_penalty_bucket, "reclamation_penalty_bucket"),
    )
    unit = resources_from_texts(message.min_unit, "min_unit")
    return _Row(
        profile,
        resources_from_texts(message.aggregate_resources, "aggregate_resources"),
        unit,
        message.group,
        checked_max_units(message.max_units_per_machine, unit),
        message.for_fragments,
        profile.fingerprint,
    )


def _spreads(messages: Iterable[pb.TopologySpread]) -> Iterable[Spread]:
    for place, item in enumerate(messages):
        try:
            check_spread(item)
        except InvalidFieldError as error:
            raise error.under(f"spread[{place}]") from None
        yield spread_from_proto(item)


def resources_from_texts(texts: Mapping[str, str], field: str) -> Resources:
    """Read a map of quantities, a refusal naming field and dimension, as `min_unit[cpu]`."""
    try:
        return Resources.parse(texts)
    except InvalidFieldError as error:
        raise error.under(field) from None


def row_to_proto(
    profile: Profile,
    total: Mapping[str, str],
    unit: Mapping[str, str],
    group: str,
    *,
    max_units: int = 0,
    for_fragments: bool = False,
) -> pb.CapacityNeed:
    """Write one row of demand from amounts that are texts already, as an operator words them."""
    row = pb.CapacityNeed(
        aggregate_resources=total,
        priority=profile.priority,
        interruption_penalty_bucket=pb.PenaltyBucket.ValueType(profile.interruption_bucket),
        reclamation_penalty_bucket=pb.PenaltyBucket.ValueType(profile.reclamation_bucket),
        group=group,
    )
    # Most rows have none of these, and to say so costs as much as all the rest.
    if profile.requirements:
        row.requirements.extend(requirements_to_proto(profile.requirements))
    if profile.spreads:
        row.spread.extend(spreads_to_proto(profile.spreads))
    if unit:
        row.min_unit.update(unit)
    if max_units:
        row.max_units_per_machine = max_units
    if for_fragments:
        row.for_fragments = True
    return row


def need_to_proto(need: Need) -> pb.CapacityNeed:
    """Write one row of demand."""
    return row_to_proto(
        need.profile,
        need.total.texts(),
        need.unit.texts(),
        need.group,
        max_units=need.max_units,
        for_fragments=need.for_fragments,
    )


def rollup_to_proto(rollup: Rollup) -> pb.ClusterCapacityNeeds:
    """Write a cluster's complete demand."""
    return pb.ClusterCapacityNeeds(
        cluster_id=rollup.cluster,
        timestamp_unix_nanos=rollup.arrival_ns,
        needs=[need_to_proto(need) for need in rollup.needs],
    )
