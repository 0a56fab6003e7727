"""What a roll-up may contain at most: bytes, rows, and the texts and lists of one row.

Why: a tenant decides what it sends, and the shard keeps it until the tenant sends something else. Without bounds one
tenant fills the memory, the log and the reports of a shard that serves thousands.
Must never: refuse what an operator sends for objects that Kubernetes accepts; the bounds of a row are several times those
of our own operator, since the original's has none.
Rules: `wire#rollup-limits`, `wire#text-lengths`, `wire#max-units-per-machine`; ADR-0237, ADR-0238, ADR-0264.
"""

from dataclasses import dataclass

from bigfleet.model.errors import BeyondLimitError, InvalidFieldError
from bigfleet.model.resources import Resources
from bigfleet.model.texts import MAX_LABEL_VALUE, checked_key, value_fits
from bigfleet.v1alpha1 import capacity_pb2 as pb

MAX_ROW_BYTES = 64 * 1024
"""One row, encoded. Our operator writes at most 16 Ki characters of requirements, 4 Ki of group and 64 amounts."""
MAX_REQUIREMENTS = 256
MAX_VALUES = 1024
MAX_SPREADS = 64
MAX_RESOURCES = 256
"""Of one row: four times what our operator sends at most."""
MAX_GROUP_BYTES = 16 * 1024
"""The original makes a group of a namespace, a key and a pod selector, which it does not shorten."""


@dataclass(frozen=True, slots=True)
class RollupLimits:
    """The limits of a roll-up as a whole, which are settings of the shard."""

    rows: int = 50_000
    """Ten times what a cluster of 5,000 nodes with a profile per node would send."""
    size_bytes: int = 64 << 20
    """A roll-up of 40 MiB is known to occur; this leaves room, and is a quarter of what a frame may have."""

    def check_size(self, size_bytes: int) -> None:
        """Refuse a roll-up that has too many bytes, before any of them is read."""
        if size_bytes > self.size_bytes:
            raise BeyondLimitError(
                "rollup", f"{size_bytes} bytes", f"at most {self.size_bytes} bytes (--max-rollup-bytes)"
            )

    def check_rows(self, rows: int) -> None:
        """Refuse a roll-up that has too many rows, before any of them is read."""
        if rows > self.rows:
            raise BeyondLimitError("needs", f"{rows} rows", f"at most {self.rows} (--max-rows-per-cluster)")


def check_row_size(row: bytes, place: str) -> None:
    """Refuse a row that has too many bytes, before they are read."""
    if len(row) > MAX_ROW_BYTES:
        raise BeyondLimitError(place, f"{len(row)} bytes", f"at most {MAX_ROW_BYTES} bytes in a row")


def check_lists(row: pb.CapacityNeed) -> None:
    """Refuse a row with too many requirements, spreads or amounts, or a group that is too long."""
    for field, found, most in (
        ("requirements", len(row.requirements), MAX_REQUIREMENTS),
        ("spread", len(row.spread), MAX_SPREADS),
        ("aggregate_resources", len(row.aggregate_resources), MAX_RESOURCES),
        ("min_unit", len(row.min_unit), MAX_RESOURCES),
    ):
        if found > most:
            raise BeyondLimitError(field, f"{found} entries", f"at most {most}")
    for field, names in (("aggregate_resources", row.aggregate_resources), ("min_unit", row.min_unit)):
        for name in names:
            checked_key(name, field)
    if len(row.group.encode()) > MAX_GROUP_BYTES:
        raise BeyondLimitError("group", row.group, f"a text of at most {MAX_GROUP_BYTES} bytes")


def check_requirement(message: pb.NodeSelectorRequirement) -> None:
    """Refuse a requirement whose key or values no label can have, for their length."""
    checked_key(message.key, "key")
    if len(message.values) > MAX_VALUES:
        raise BeyondLimitError("values", f"{len(message.values)} values", f"at most {MAX_VALUES}")
    for place, value in enumerate(message.values):
        if not value_fits(value):
            allowed = f"a label value of at most {MAX_LABEL_VALUE} bytes"
            raise BeyondLimitError(f"values[{place}]", value, allowed)


def check_spread(message: pb.TopologySpread) -> None:
    """Refuse a spread over a key that no label can have, and one that allows less than no difference."""
    checked_key(message.topology_key, "topology_key")
    if message.max_skew < 0:
        raise InvalidFieldError("max_skew", message.max_skew, "a number that is not negative")


def checked_max_units(found: int, unit: Resources) -> int:
    """Refuse a limit of units per machine that is negative, or of a unit that does not say how much it is."""
    if found < 0 or (found and unit.is_zero):
        raise InvalidFieldError(
            "max_units_per_machine", found, "0 for no limit, or a positive number beside a min_unit"
        )
    return found


REFUSAL_REASONS = ("bytes", "rows", "row", "invalid")
"""Why roll-ups are refused: too many bytes, too many rows, a row beyond its limits, anything else."""


def refusal_reason(error: InvalidFieldError) -> str:
    """The word under which a refused roll-up is counted."""
    if not isinstance(error, BeyondLimitError):
        return "invalid"
    return {"rollup": "bytes", "needs": "rows"}.get(error.field, "row")
