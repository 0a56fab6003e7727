"""Runs verbs at given times from a file, so that a flag can cause every fault that the control can.

Must never: continue after a step that failed.
Rules: `providers#fault-injection`.

    - {at: 10m, do: fail, zone: zone-a, capacity_type: Spot}
    - {at: 12m, do: price, selector: {instance_type: m6i.large}, price: 9.5}
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from bigfleet.aio.clock import Clock, monotonic_s
from bigfleet.document.errors import DocumentError, from_model, shown
from bigfleet.model.errors import BigFleetError, InvalidFieldError
from bigfleet.provider.fake.control import VERBS
from bigfleet.provider.fake.inventory import parse_yaml, read_form
from bigfleet.provider.fake.latency import parse_duration
from bigfleet.provider.fake.provider import FakeProvider

_OWN: Final = ("at", "do")


class ScriptError(BigFleetError):
    """A step of a script could not be carried out."""


@dataclass(frozen=True, slots=True)
class ScriptStep:
    """One verb and its time in seconds since the start."""

    at_s: float
    verb: str
    body: dict[str, object] = field(default_factory=dict)


def read_script(data: bytes) -> tuple[ScriptStep, ...]:
    """Read a file of `--script`; `DocumentError` names the path of what is invalid."""
    document = parse_yaml(data)
    if document is None:
        return ()
    if not isinstance(document, list):
        raise DocumentError("document", shown(document), "a list of steps")
    steps = []
    for place, raw in enumerate(document):
        try:
            steps.append(_step(raw))
        except InvalidFieldError as error:
            raise from_model(error).under(f"[{place}]") from None
    return tuple(sorted(steps, key=lambda step: step.at_s))


async def play(steps: Sequence[ScriptStep], fake: FakeProvider, clock: Clock) -> None:
    start_s = monotonic_s(clock)
    for step in steps:
        left_s = start_s + step.at_s - monotonic_s(clock)
        if left_s > 0:
            await clock.sleep(left_s)
        try:
            await VERBS[step.verb](fake, step.body)
        except BigFleetError as error:
            raise ScriptError(f"script at {step.at_s:g} s: {step.verb}: {error}") from error


def _step(raw: object) -> ScriptStep:
    if not isinstance(raw, dict):
        raise DocumentError("", shown(raw), "an object with at, do and the fields of the verb")
    verb = raw.get("do")
    if not isinstance(verb, str) or verb not in VERBS or not VERBS[verb].changes:
        allowed = ", ".join(name for name, known in VERBS.items() if known.changes)
        raise DocumentError("do", shown(verb), f"one of {allowed}")
    body = {name: value for name, value in raw.items() if name not in _OWN}
    read_form(body, VERBS[verb].form)  # a misspelt field is an error at start, not after ten minutes
    at = raw.get("at", "0")
    return ScriptStep(parse_duration(str(at), "at"), verb, body)
