"""Latency distributions: fixed, uniform or log-normal.

Must never: draw a negative time, or draw at all for a fixed one: a default must not change a random stream.
Rules: `providers#fake-flags`.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

from bigfleet.aio.rng import RandomStream
from bigfleet.model.errors import InvalidFieldError

LATENCY_FORMS: Final = "a duration such as 2s, uniform:1s-5s or lognormal:30s,p99=4m"
DURATION_FORMS: Final = "a duration such as 100ms, 10s, 5m, 1h30m or 0"

_UNIT_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_WHOLE: Final = re.compile(rf"(?:{_PART.pattern})+")
_LONGEST_S: Final = 365 * 24 * 3600.0
_STANDARD: Final = NormalDist()
_Z99: Final = _STANDARD.inv_cdf(0.99)
_TINY: Final = 2.0**-53


@dataclass(frozen=True, slots=True)
class Latency:
    """A distribution of waits; `text` is its notation, which the control shows."""

    text: str
    draw: Callable[[RandomStream], float]
    """Return one wait in seconds."""

    def __str__(self) -> str:
        return self.text


def parse_duration(text: str, field: str = "duration") -> float:
    """Read a duration as seconds; a number without a unit is refused, except 0."""
    if text == "0":
        return 0.0
    if not _WHOLE.fullmatch(text):
        raise InvalidFieldError(field, text, DURATION_FORMS)
    seconds = sum(float(amount) * _UNIT_S[unit] for amount, unit in _PART.findall(text))
    if seconds > _LONGEST_S:
        raise InvalidFieldError(field, text, f"{DURATION_FORMS}, at most a year")
    return seconds


def parse_latency(text: str, field: str = "latency") -> Latency:
    name, colon, rest = text.partition(":")
    try:
        match name if colon else "":
            case "":
                return fixed(parse_duration(text, field), text)
            case "uniform":
                low, _, high = rest.partition("-")
                return _uniform(parse_duration(low, field), parse_duration(high, field), text, field)
            case "lognormal":
                median, _, tail = rest.partition(",p99=")
                return _lognormal(parse_duration(median, field), parse_duration(tail, field), text, field)
    except InvalidFieldError as error:
        if error.found == text:
            raise
    raise InvalidFieldError(field, text, LATENCY_FORMS)


def fixed(seconds: float, text: str = "") -> Latency:
    return Latency(text or f"{seconds:g}s", lambda _stream: seconds)


NO_WAIT: Final = fixed(0.0, "0")


def _uniform(low_s: float, high_s: float, text: str, field: str) -> Latency:
    if high_s < low_s:
        raise InvalidFieldError(field, text, "a range whose second duration is not the shorter one")
    # Not `uniform` of the stream: only `random` gives the same numbers in every Python version.
    return Latency(text, lambda stream: low_s + (high_s - low_s) * stream.random())


def _lognormal(median_s: float, p99_s: float, text: str, field: str) -> Latency:
    if not 0 < median_s <= p99_s:
        raise InvalidFieldError(field, text, "a median above 0 and a p99 that is not below it")
    sigma = math.log(p99_s / median_s) / _Z99

    def draw(stream: RandomStream) -> float:
        return median_s * math.exp(sigma * _STANDARD.inv_cdf(max(stream.random(), _TINY)))

    return Latency(text, draw)
