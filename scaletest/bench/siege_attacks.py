"""What the hostile tenant of the siege sends, by kind: frames that were made before, sent in turn.

Every kind has a certificate and a session that are good. More rows are new than a session remembers, so that each is read again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bigfleet.model.profile import INSTANCE_TYPE_KEY
from bigfleet.v1alpha1 import capacity_pb2
from bigfleet.v1alpha1 import shard_pb2 as pb
from scaletest.bench.siege_fleet import TENANT
from tests.support.hostile_frames import (
    BAD_FIRST_FRAMES,
    BAD_LATER_FRAMES,
    FLOODS,
    MIB,
    SKIPPED_LATER_FRAMES,
    field,
    hello,
    rollup,
)

MOST_ROWS: Final = 50_000
_IN: Final = capacity_pb2.NodeSelectorRequirement.Operator.ValueType(1)
EMPTY: Final = rollup(TENANT, 0)
WITHDRAWALS: Final = 4
"""The first ones are held as a lost cache."""


@dataclass(frozen=True, slots=True)
class Attack:
    """One kind of attack; `first` says that every frame opens a stream of its own."""

    frames: Callable[[], Sequence[bytes]]
    first: bool = False


def _rows(cluster_rows: Iterable[capacity_pb2.CapacityNeed]) -> bytes:
    whole = capacity_pb2.ClusterCapacityNeeds(cluster_id=TENANT, timestamp_unix_nanos=1, needs=cluster_rows)
    return pb.OperatorMessage(rollup=whole).SerializeToString()


def _row(requirements: Mapping[str, Iterable[str]]) -> capacity_pb2.CapacityNeed:
    need = capacity_pb2.CapacityNeed(priority=100, aggregate_resources={"cpu": "1"})
    for key, values in requirements.items():
        need.requirements.add(key=key, operator=_IN, values=values)
    return need


def _million() -> list[bytes]:
    """A million rows, as short as rows can be and as long as the limit of bytes allows."""
    one, none = field(2, b"\x10\x01"), field(2, b"")
    head = field(1, TENANT.encode())
    return [field(2, head + row * 1_000_000) for row in (one, none)]


def _profiles(batch: int, key: str) -> bytes:
    """As many rows as are allowed, each with a profile that was never asked for before."""
    return _rows(_row({key: [f"{batch}-{place}"]}) for place in range(MOST_ROWS))


def _long_texts(batch: int) -> bytes:
    """Rows of nearly 64 KiB each, with the longest keys and values that are legal, which no machine satisfies."""

    def row(place: int) -> capacity_pb2.CapacityNeed:
        prefix = ".".join(["p" * 63] * 3)
        keys = (f"{prefix}/{batch:04d}-{place:06d}-{number:04d}-{'k' * 40}" for number in range(80))
        return _row({key: [f"{value}-{'v' * 61}" for value in range(8)] for key in keys})

    return _rows(row(place) for place in range(850))


ATTACKS: Final[Mapping[str, Attack]] = {
    "A2 first frames": Attack(lambda: list(BAD_FIRST_FRAMES.values()), first=True),
    "A2 frames of unknown fields": Attack(
        lambda: [*BAD_LATER_FRAMES.values(), *SKIPPED_LATER_FRAMES.values()]
    ),
    "A6 a million rows": Attack(_million),
    "A6 the most rows, kept": Attack(lambda: [rollup(TENANT, MOST_ROWS)]),
    "A6 the most rows, withdrawn and sent again": Attack(
        lambda: [
            frame
            for batch in range(2)
            for frame in (rollup(TENANT, MOST_ROWS, first=batch * MOST_ROWS), *[EMPTY] * 3)
        ]
    ),
    "A7 texts for the log": Attack(
        lambda: [
            _rows([_row({"rack": ["v" * (20 * MIB)]})]),
            *(_long_texts(batch) for batch in range(2)),
            hello("x" * 20 * MIB),
        ]
    ),
    "A8 ever-new profiles": Attack(lambda: [_profiles(batch, "rack") for batch in range(8)]),
    "A8 ever-new profiles with hints": Attack(
        lambda: [_profiles(batch, INSTANCE_TYPE_KEY) for batch in range(8)]
    ),
    **{
        f"flood: {kind}": Attack(frames)
        for kind, frames in FLOODS.items()
        if kind not in ("first frames", "frames that end the session")
    },
}
"""The names of the attack report, and the floods of the attack tests that those do not hold already."""
