"""The figures of one run as a document: the public form of `bigfleet bench engine -o json`, written and read back.

Why: figures are kept for years and compared between builds and machines; a misread field would be a wrong figure.
Must never: guess. What is missing, misspelt, of another type or another version is refused with its path.
Rules: `engine#bars`.
"""

import re
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from bigfleet.bench.meter import Timing, percentile
from bigfleet.document.canonical import many_lines
from bigfleet.document.errors import WHOLE, DocumentError, from_model, shown
from bigfleet.document.fields import INT64, REQUIRED, Fields
from bigfleet.document.parse import parse_json
from bigfleet.model.errors import InvalidFieldError

VERSION = 1

_SHA256 = re.compile(r"[0-9a-f]{64}")
_POSITIVE = "a finite number that is not negative"

_REPORT = dict.fromkeys(
    (
        "version",
        "profile",
        "seed",
        "python",
        "numpy",
        "unit_ms",
        "results",
        "memory",
        "actions_sha256",
    ),
    REQUIRED,
)
_RESULT = dict.fromkeys(("name", "cpu_ms", "wall_ms", "units", "repetitions"), REQUIRED)
_SPAN = dict.fromkeys(("median", "p99"), REQUIRED)
_MEMORY = dict.fromkeys(("bytes_per_machine",), REQUIRED)


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """A time that was taken several times, in milliseconds."""

    median: float
    p99: float

    def document(self) -> dict[str, object]:
        """As JSON has it."""
        return {"median": self.median, "p99": self.p99}


@dataclass(frozen=True, slots=True)
class BenchResult:
    """What one benchmark cost."""

    name: str
    cpu_ms: TimeSpan
    wall_ms: TimeSpan
    units: float
    repetitions: int

    def document(self) -> dict[str, object]:
        """As JSON has it."""
        return {
            "name": self.name,
            "cpu_ms": self.cpu_ms.document(),
            "wall_ms": self.wall_ms.document(),
            "units": self.units,
            "repetitions": self.repetitions,
        }


@dataclass(frozen=True, slots=True)
class BenchReport:
    """Everything one run measured, and on what."""

    profile: str
    seed: int
    python: str
    numpy: str
    unit_ms: float
    results: tuple[BenchResult, ...]
    bytes_per_machine: float
    actions_sha256: str
    """Of what was decided in the benchmarks that decide, so that a faster wrong answer shows."""

    def units(self, name: str) -> float:
        """The units of one benchmark."""
        for result in self.results:
            if result.name == name:
                return result.units
        raise InvalidFieldError(
            "results", name, f"one of {', '.join(result.name for result in self.results)}"
        )

    def document(self) -> dict[str, object]:
        """As JSON has it."""
        return {
            "version": VERSION,
            "profile": self.profile,
            "seed": self.seed,
            "python": self.python,
            "numpy": self.numpy,
            "unit_ms": self.unit_ms,
            "results": [result.document() for result in self.results],
            "memory": {"bytes_per_machine": self.bytes_per_machine},
            "actions_sha256": self.actions_sha256,
        }


def result_of(name: str, timing: Timing) -> BenchResult:
    """The figures of one benchmark from the times that were taken."""
    return BenchResult(
        name=name,
        cpu_ms=_span(timing.cpu_ms),
        wall_ms=_span(timing.wall_ms),
        units=rounded(timing.units),
        repetitions=len(timing.cpu_ms),
    )


def _span(times: list[float]) -> TimeSpan:
    return TimeSpan(rounded(statistics.median(times)), rounded(percentile(times, 99)))


def rounded(value: float) -> float:
    """Five digits that mean something, whatever the size; times here span six orders of magnitude."""
    return float(f"{value:.5g}")


def write_report(report: BenchReport) -> bytes:
    """The document, one line per result."""
    return many_lines(report.document())


def read_report(data: bytes) -> BenchReport:
    """Read a document back, or refuse it with the path of its flaw."""
    try:
        return _report(_strict(parse_json(data), _REPORT))
    except InvalidFieldError as error:
        raise from_model(error) from None


def _report(fields: Fields) -> BenchReport:
    fields.integer("version", (VERSION, VERSION))
    results, _ = fields.items("results", _RESULT, _result)
    names = [result.name for result in results]
    seen: set[str] = set()
    # `set.add` returns None, so the test is true exactly for a name that was there before.
    twice = next((name for name in names if name in seen or seen.add(name)), None)  # type: ignore[func-returns-value]
    if twice is not None:
        raise DocumentError(
            f"results[{names.index(twice, names.index(twice) + 1)}].name", shown(twice), "each name once"
        )
    sha256 = fields.text("actions_sha256")
    if not _SHA256.fullmatch(sha256):
        raise DocumentError("actions_sha256", shown(sha256), "64 hexadecimal digits")
    return BenchReport(
        profile=fields.name("profile"),
        seed=fields.integer("seed", INT64),
        python=fields.name("python"),
        numpy=fields.name("numpy"),
        unit_ms=_positive(fields, "unit_ms"),
        results=tuple(results),
        bytes_per_machine=_amount(_part(fields, "memory", _MEMORY), "bytes_per_machine", "memory"),
        actions_sha256=sha256,
    )


def _result(fields: Fields) -> BenchResult:
    _refuse_extras(fields)
    return BenchResult(
        name=fields.name("name"),
        cpu_ms=_read_span(fields, "cpu_ms"),
        wall_ms=_read_span(fields, "wall_ms"),
        units=_amount(fields, "units"),
        repetitions=fields.integer("repetitions", (1, 2**31 - 1)),
    )


def _read_span(fields: Fields, name: str) -> TimeSpan:
    part = _part(fields, name, _SPAN)
    return TimeSpan(_amount(part, "median", name), _amount(part, "p99", name))


def _amount(fields: Fields, name: str, parent: str = "") -> float:
    try:
        return fields.number(name, low=0, allowed=_POSITIVE)
    except DocumentError as error:
        raise (error.under(parent) if parent else error) from None


def _positive(fields: Fields, name: str) -> float:
    """A number that others are divided by."""
    number = fields.number(name, low=0, allowed=_POSITIVE)
    if number == 0:
        raise DocumentError(name, "0", "a finite number above 0")
    return number


def _part(fields: Fields, name: str, form: Mapping[str, object]) -> Fields:
    part = fields.part(name, form)
    try:
        _refuse_extras(part)
    except DocumentError as error:
        raise error.under(name) from None
    return part


def _strict(raw: object, form: Mapping[str, object]) -> Fields:
    try:
        fields = Fields(raw, form)
    except DocumentError as error:
        raise (error if error.field else error.under(WHOLE)) from None
    _refuse_extras(fields)
    return fields


def _refuse_extras(fields: Fields) -> None:
    """Refuse `x-` keys: snapshots may carry them, figures may not."""
    for names in fields.extras.values():
        for name in names:
            raise DocumentError(name, "an unknown field", "only the fields of the form")
