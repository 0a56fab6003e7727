"""The bars: what must be met, what is aimed at, and how a result is judged."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bar:
    """An upper bound on a ratio or a size."""

    name: str
    unit: str
    must: float
    aim: float | None = None


BARS = (
    Bar("memory per machine", "bytes", must=130, aim=100),
    Bar("memory per machine, unique label", "bytes", must=165),
    Bar("ingest of an unchanged listing", "plain parses", must=0.5),
    Bar("ingest of a first listing", "plain parses", must=3.8),
    Bar("ingest of a delta of 1,000", "plain parses", must=0.04),
)


def judge(values: dict[str, float]) -> tuple[list[str], bool]:
    """One line per bar, and whether every bar that must be met is met; a bar without a value is missed."""
    lines, met = [], True
    for bar in BARS:
        value = values.get(bar.name, math.inf)
        met &= value <= bar.must
        shown = "not measured" if math.isinf(value) else f"{value:.3g} {bar.unit}"
        aim = "" if bar.aim is None else f", aim {bar.aim:g}{'' if value <= bar.aim else ' not reached'}"
        verdict = "met   " if value <= bar.must else "MISSED"
        lines.append(f"{verdict}  {bar.name:<34} {shown:<22} must {bar.must:g}{aim}")
    return lines, met
