"""The demand of a simulated cluster: rows, each a need whose size follows a schedule.

Why: demos, compose files and load runs need demand that changes, and the same demand in each run.
Must never: depend on anything but the file and the time since the start.
Rules: `packaging#cluster-sim`. The need of a row is written as in a snapshot document, without cluster,
total and arrival: its total is its unit times the units that the schedule asks for.
"""

from bisect import bisect_right
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from bigfleet.document.errors import DocumentError, from_model, quoted
from bigfleet.document.fields import REQUIRED, Fields, Form
from bigfleet.document.needs import NEED, NeedReader
from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.need import Need
from bigfleet.model.resources import Resources

VERSION: Final = 1
FORM: Final[Form] = {"version": VERSION, "seed": 0, "rows": REQUIRED}
ROW: Final[Form] = {
    "name": REQUIRED,
    "need": REQUIRED,
    "units": 0,
    "schedule": [],
    "repeat_after": 0,
    "wobble": 0,
}
ROW_NEED: Final[Form] = {
    key: value for key, value in NEED.items() if key not in {"cluster", "total", "arrival"}
}
STEP: Final[Form] = {"at": REQUIRED, "units": REQUIRED}
_UNITS: Final = (0, 1_000_000)
_SEED: Final = (0, 2**31 - 1)
_WOBBLE_EVERY_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class FileDemandRow:
    """A need of one unit, and how many units are wanted at which time."""

    name: str
    need: Need
    units: int
    steps: tuple[tuple[float, int], ...] = ()
    """Seconds since the start and the units from then on, in order."""
    repeat_after_s: float = 0.0
    """The period of the schedule; 0 for none."""
    wobble: int = 0
    """At most this many units more or fewer, changing every 30 seconds."""

    def units_at(self, elapsed_s: float, seed: int) -> int:
        """Return how many units are wanted."""
        place = elapsed_s % self.repeat_after_s if self.repeat_after_s else elapsed_s
        passed = bisect_right([at for at, _ in self.steps], place)
        wanted = self.steps[passed - 1][1] if passed else self.units
        return max(0, wanted + self._offset(int(elapsed_s // _WOBBLE_EVERY_S), seed)) if wanted else 0

    def _offset(self, turn: int, seed: int) -> int:
        if not self.wobble:
            return 0
        # A hash instead of a random number: the same file and time give the same demand on every host.
        mixed = (turn * 2_654_435_761 ^ seed * 40_503 ^ sum(map(ord, self.name)) * 9_973) & 0xFFFFFFFF
        mixed = (mixed ^ mixed >> 15) * 2_246_822_519 & 0xFFFFFFFF
        return (mixed >> 8) % (2 * self.wobble + 1) - self.wobble


@dataclass(frozen=True, slots=True)
class SimulatedDemand:
    """All rows of one cluster."""

    rows: tuple[FileDemandRow, ...]
    seed: int = 0

    def needs_at(self, elapsed_s: float) -> tuple[Need, ...]:
        """Return the whole demand at a time, without rows of zero units."""
        wanted = ((row, row.units_at(elapsed_s, self.seed)) for row in self.rows)
        return tuple(_sized(row.need, units) for row, units in wanted if units)


def read_demand(raw: object, cluster: str) -> SimulatedDemand:
    """Read a demand document for a cluster, or refuse it by path."""
    fields = Fields(raw, FORM)
    fields.integer("version", (VERSION, VERSION))
    reader = NeedReader()
    rows, _ = fields.items("rows", ROW, lambda row: _row(row, reader, cluster))
    names: set[str] = set()
    for place, row in enumerate(rows):
        if row.name in names:
            raise DocumentError(f"rows[{place}].name", quoted(row.name), "a name that no other row has")
        names.add(row.name)
    return SimulatedDemand(tuple(rows), fields.integer("seed", _SEED))


def _row(fields: Fields, reader: NeedReader, cluster: str) -> FileDemandRow:
    given = fields.mapping("need")
    try:
        Fields(given, ROW_NEED)  # refuses fields that a row may not have
        need = reader.read(Fields({**given, "cluster": cluster}, NEED))
    except InvalidFieldError as error:
        raise from_model(error).under("need") from None
    if not need.unit:
        raise DocumentError("need.unit", "{}", "at least one resource")
    steps, _ = fields.items("schedule", STEP, _step)
    if any(after[0] <= before[0] for before, after in pairwise(steps)):
        raise DocumentError("schedule", "times out of order", "steps whose times rise")
    repeat_s = fields.number("repeat_after", low=0.0, allowed="seconds, a finite number that is not negative")
    if repeat_s and steps and steps[-1][0] >= repeat_s:
        raise DocumentError("repeat_after", f"{repeat_s:g}", "more than the time of the last step")
    return FileDemandRow(
        fields.name("name"),
        need,
        fields.integer("units", _UNITS),
        tuple(steps),
        repeat_s,
        fields.integer("wobble", _UNITS),
    )


def _step(fields: Fields) -> tuple[float, int]:
    at_s = fields.number("at", low=0.0, allowed="seconds, a finite number that is not negative")
    return at_s, fields.integer("units", _UNITS)


def _sized(need: Need, units: int) -> Need:
    total = Resources({name: amount * units for name, amount in need.unit.items()})
    return replace(need, total=total)
