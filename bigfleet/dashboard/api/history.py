"""The route of the history: families of numbers over a range of time, for charts and scripts.

Must never: answer with more than `MAX_LINES` lines in all, or with 0 where nothing is known (it returns null).
Rules: `dashboard#history-ranges`, `dashboard#answer-size`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bigfleet.dashboard.core.history_sample import FAMILIES
from bigfleet.dashboard.core.history_steps import DEFAULT_RANGE, RANGES, STEPS, fits
from bigfleet.dashboard.fleet_sources import FleetSources
from bigfleet.dashboard.history import History, HistoryAnswer
from bigfleet.dashboard.parameters import ParameterError, Parameters
from bigfleet.model.times import rfc3339_of_s

MAX_FAMILIES: Final = 4
_STEPS: Final = {step.name: step for step in STEPS}
_OF_CLUSTER: Final = tuple(name for name, family in FAMILIES.items() if family.of_cluster)


async def history(fleet: FleetSources, given: Parameters) -> Mapping[str, Any]:
    """Families over a range, of the fleet or of one cluster."""
    families = _families(given)
    range_name = given.choice("range", RANGES, DEFAULT_RANGE)
    word = given.choice("step", {"": None, **_STEPS})
    step = _STEPS.get(word)
    if step is not None and not fits(range_name, step):
        allowed = ", ".join(name for name, row in _STEPS.items() if fits(range_name, row))
        raise ParameterError("step", word, f"for a range of {range_name} one of {allowed}")
    cluster = given.text("cluster") or None
    asked = [(family, cluster) for family in families]
    answer = await fleet.history.lines(range_name, asked, now=fleet.now(), step=step)
    return history_answer(answer, range_name, cluster, fleet.history)


def _families(given: Parameters) -> Sequence[str]:
    families = list(dict.fromkeys(given.texts("family")))
    known = _OF_CLUSTER if given.text("cluster") else tuple(FAMILIES)
    wrong = next((name for name in families if name not in known), None)
    if wrong is not None or not 1 <= len(families) <= MAX_FAMILIES:
        found = given.text("family") if wrong is None else wrong
        raise ParameterError("family", found, f"one to {MAX_FAMILIES} of {', '.join(known)}")
    return families


def history_answer(
    answer: HistoryAnswer, range_name: str, cluster: str | None, history: History
) -> dict[str, Any]:
    """Return lines in the form of the route."""
    return {
        "range": range_name,
        "stepSeconds": answer.step.seconds,
        "from": rfc3339_of_s(answer.times[0]),
        "to": rfc3339_of_s(answer.times[-1]),
        "cluster": cluster,
        "problem": None if history.trouble is None else history.trouble.text,
        "times": list(answer.times),
        "families": [
            {
                "family": row.family,
                "title": FAMILIES[row.family].title,
                "unit": FAMILIES[row.family].unit,
                "lines": [{"name": name, "values": list(values)} for name, values in row.lines.items()],
            }
            for row in answer.lines
        ],
    }
