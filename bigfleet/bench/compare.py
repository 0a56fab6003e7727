"""Two reports side by side: what became slower, what faster, and whether the answers are still the same.

Why: a change to the engine is judged by what it does to every figure, not to the one it was made for.
Must never: compare milliseconds, which belong to a machine; units belong to the work. Nor call it a gain when the
decisions differ.
Rules: `engine#bars`, `testing#bench-compare`.
"""

from dataclasses import dataclass
from enum import StrEnum

from bigfleet.bench.report import BenchReport
from bigfleet.model.errors import InvalidFieldError

NOISE = 1.2
"""How far two figures may differ and still count as the same."""


class FigureChange(StrEnum):
    """How a figure changed."""

    BETTER = "better"
    SAME = "same"
    WORSE = "worse"
    GONE = "gone"  # only the first report has it
    NEW = "new"  # only the second


@dataclass(frozen=True, slots=True)
class FigureRow:
    """One benchmark in both reports; None where one of them lacks it."""

    name: str
    before: float | None
    after: float | None

    @property
    def ratio(self) -> float | None:
        """How many times the first figure the second is."""
        if self.before is None or self.after is None:
            return None
        if self.before == 0:
            return 1.0 if self.after == 0 else float("inf")
        return self.after / self.before

    @property
    def mark(self) -> FigureChange:
        """The figure in one word."""
        ratio = self.ratio
        if ratio is None:
            return FigureChange.NEW if self.before is None else FigureChange.GONE
        return (
            FigureChange.WORSE
            if ratio > NOISE
            else FigureChange.BETTER
            if ratio < 1 / NOISE
            else FigureChange.SAME
        )


class AnswerCheck(StrEnum):
    """How the decisions behind the figures compare."""

    SAME = "same"
    DIFFERENT = "different"
    UNKNOWN = "not comparable"  # not the same benchmarks, so one fingerprint says nothing about the other


@dataclass(frozen=True, slots=True)
class BenchComparison:
    """All figures of two reports, in units, and the bytes per machine."""

    rows: tuple[FigureRow, ...]
    answers: AnswerCheck

    @property
    def answers_differ(self) -> bool:
        """Whether the two did not do the same work."""
        return self.answers is AnswerCheck.DIFFERENT

    def over(self, limit: float) -> list[FigureRow]:
        """The figures that became larger than the limit allows."""
        return [row for row in self.rows if row.ratio is not None and row.ratio > limit]


MEMORY = "bytes_per_machine"


def compare(before: BenchReport, after: BenchReport) -> BenchComparison:
    """Compare two reports of one world; those of different worlds are refused."""
    for field in ("profile", "seed"):
        wanted, found = getattr(before, field), getattr(after, field)
        if wanted != found:
            raise InvalidFieldError(field, found, f"{wanted!r}, as in the first report")
    units_before = {result.name: result.units for result in before.results}
    units_after = {result.name: result.units for result in after.results}
    names = list(units_before) + [name for name in units_after if name not in units_before]
    rows = [FigureRow(name, units_before.get(name), units_after.get(name)) for name in names]
    rows.append(FigureRow(MEMORY, before.bytes_per_machine, after.bytes_per_machine))
    if units_before.keys() != units_after.keys():
        answers = AnswerCheck.UNKNOWN
    else:
        same = before.actions_sha256 == after.actions_sha256
        answers = AnswerCheck.SAME if same else AnswerCheck.DIFFERENT
    return BenchComparison(tuple(rows), answers)
