"""Answers what-if requests, the only POST of the API: on a shard's snapshot, or on one in the request.

Why: the dashboard fetches a snapshot once and keeps it, so that later questions about an answer use the same snapshot.
Must never: change anything, or keep more than a few snapshots.
Rules: `dashboard#own-routes`, `dashboard#what-if`, `dashboard#security`.
"""

import asyncio
import json
import zlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from bigfleet.dashboard.fleet_sources import FleetSources
from bigfleet.dashboard.pages.explain import explanation_tables
from bigfleet.dashboard.parameters import ParameterError
from bigfleet.dashboard.sources import SourceError, SourceProblem
from bigfleet.dashboard.what_if import WhatIf
from bigfleet.explain.horizon import LONGEST_S, Horizon

_FIELDS: Final = ("shard", "cycle", "snapshot", "edits", "horizon", "explain")
_HORIZON: Final = ("until", "create_seconds", "drain_seconds")
_KEPT: Final = 4
"""Snapshots kept; a compressed one of 500,000 machines takes about 20 MB."""


@dataclass(frozen=True, slots=True)
class _Base:
    """The snapshot that a question is about, and where it came from."""

    shard: str
    cycle: int
    address: str
    packed: bytes


class WhatIfRequests:
    """Answers what-if requests."""

    def __init__(self, fleet: FleetSources, what_if: WhatIf) -> None:
        self._fleet, self._what_if = fleet, what_if
        self._kept: OrderedDict[tuple[str, int], _Base] = OrderedDict()

    async def answer(self, body: bytes) -> Mapping[str, Any]:
        """Return the answer to the body of a request; raises `ParameterError` and `SourceError`."""
        asked = _read(body)
        question: dict[str, Any] = {
            "edits": _edits(asked.get("edits", [])),
            "horizon": asdict(_horizon(asked.get("horizon", {}))),
            "explain": _explain(asked.get("explain")),
        }
        base = await self._base(asked)
        answer = await self._what_if.ask(base.packed, question)
        about = {"shard": base.shard, "cycle": base.cycle, "address": base.address}
        if (subject := question["explain"]) is not None:
            kind = "machine" if "machine" in subject else "need"
            return {"base": about, "explanation": answer, **explanation_tables(answer, kind)}
        return {**answer, "base": about}

    async def _base(self, asked: Mapping[str, Any]) -> _Base:
        if "snapshot" in asked:
            text = json.dumps(asked["snapshot"]).encode()
            return _Base("", 0, "", zlib.compress(text, 1))
        shard, cycle = asked.get("shard"), asked.get("cycle", 0)
        if not isinstance(shard, str) or not shard:
            raise ParameterError("shard", "", "the name of a shard, or a snapshot in its place")
        if not isinstance(cycle, int) or isinstance(cycle, bool) or cycle < 0:
            raise ParameterError("cycle", str(cycle), "the cycle of an answer, or nothing for the last one")
        reader = self._fleet.shard(shard)
        if cycle:
            return self._known(shard, cycle)
        number, document = await reader.document()
        packed = await asyncio.to_thread(zlib.compress, document, 1)
        base = self._kept[shard, number] = _Base(shard, number, reader.address, packed)
        self._kept.move_to_end((shard, number))
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return base

    def _known(self, shard: str, cycle: int) -> _Base:
        base = self._kept.get((shard, cycle))
        if base is None:
            raise SourceError(
                SourceProblem.NOT_FOUND,
                f"cycle {cycle} of shard {shard} is not kept any more; ask the question again",
            )
        return base


def _read(body: bytes) -> Mapping[str, Any]:
    try:
        asked = json.loads(body.decode(), parse_constant=_no_number)
        json.dumps(asked, ensure_ascii=False).encode()  # half of a surrogate pair cannot be encoded
    except (ValueError, RecursionError) as error:
        raise ParameterError("body", "text that is no JSON", "a JSON object") from error
    if not isinstance(asked, dict):
        raise ParameterError("body", type(asked).__name__, "a JSON object")
    for name in asked:
        if name not in _FIELDS:
            raise ParameterError(name, name, "one of " + ", ".join(_FIELDS))
    return asked


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no number of JSON")


def _edits(given: object) -> object:
    if not isinstance(given, list):
        raise ParameterError("edits", str(given), "a list of edits")
    return given


def _horizon(given: object) -> Horizon:
    if not isinstance(given, dict) or not set(given) <= set(_HORIZON):
        raise ParameterError("horizon", str(given), "an object with " + ", ".join(_HORIZON))
    until = given.get("until", "cycle")
    if until not in ("cycle", "quiet"):
        raise ParameterError("horizon.until", str(until), "cycle or quiet")
    return Horizon(until == "quiet", _seconds(given, "create_seconds"), _seconds(given, "drain_seconds"))


def _seconds(given: Mapping[str, Any], name: str) -> float:
    value = given.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LONGEST_S:
        raise ParameterError(f"horizon.{name}", str(value), f"a number from 0 to {LONGEST_S:g}")
    return float(value)


def _explain(given: object) -> dict[str, str | int] | None:
    if given is None:
        return None
    if isinstance(given, dict) and len(given) == 1:
        need, machine = given.get("need"), given.get("machine")
        if isinstance(need, int) and not isinstance(need, bool):
            return {"need": need}
        if isinstance(machine, str) and machine:
            return {"machine": machine}
    raise ParameterError(
        "explain", str(given), "an object with need, a number of the answer, or machine, the id of one"
    )
