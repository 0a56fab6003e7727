"""What a run found: a result per behaviour, the verdict, and what else its reader should know.

Must never: call a provider certified of which a required behaviour was not tested.
Rules: providers 2.3, 2.4 (traps 4 to 6) and 3.
"""

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from bigfleet.provider.conformance.behaviour import Behaviour
from bigfleet.provider.conformance.settings import DEFAULT_PROFILES, Settings


class Status(StrEnum):
    """How a behaviour ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    NOT_APPLICABLE = "not applicable"
    NO_MACHINE = "no machine"
    NOT_RUN = "not run"


class Verdict(StrEnum):
    """What the run says about the provider."""

    CERTIFIED = "CERTIFIED"
    FAILED = "FAILED"
    INCOMPLETE = "INCOMPLETE"


_UNTESTED: Final = (Status.NO_MACHINE, Status.NOT_RUN)
_BACKGROUND: Final = frozenset({"B904", "B908", "B909", "B1102"})


@dataclass(frozen=True, slots=True)
class Result:
    """How one behaviour went."""

    behaviour: Behaviour
    status: Status
    seconds: float = 0.0
    message: str = ""
    notes: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    """The calls of a failure, one line each."""
    sequence: tuple[str, ...] = ()
    """What was asked, without answers; equal for equal seeds."""
    repeat: str = ""
    """The command that repeats a failure."""


@dataclass(frozen=True, slots=True)
class Report:
    """One run."""

    target: str
    run_id: str
    seed: int
    profiles: tuple[str, ...]
    verdict: Verdict
    reasons: tuple[str, ...]
    """Why the verdict is not CERTIFIED."""
    results: tuple[Result, ...]
    notes: tuple[str, ...]
    leftovers: tuple[str, ...]
    seconds: float

    @property
    def counts(self) -> dict[Status, int]:
        """How many behaviours ended in which way."""
        found = Counter(result.status for result in self.results)
        return {status: found[status] for status in Status}

    @property
    def score(self) -> str:
        """Passed of those that could be judged."""
        counts = self.counts
        judged = counts[Status.PASSED] + counts[Status.FAILED]
        return f"{counts[Status.PASSED]} of {judged} passed"

    def result(self, behaviour_id: str) -> Result:
        """Return the result of one behaviour that was run."""
        return next(result for result in self.results if result.behaviour.id == behaviour_id)

    def ids(self, *statuses: Status) -> tuple[str, ...]:
        """Return the ids of the behaviours that ended in one of these ways."""
        return tuple(result.behaviour.id for result in self.results if result.status in statuses)


def judge(results: Sequence[Result], required: Iterable[Behaviour]) -> tuple[Verdict, tuple[str, ...]]:
    """Return the verdict and its reasons: a failure outweighs a gap, a gap outweighs success."""
    ended = {result.behaviour.id: result for result in results}
    due = [behaviour.id for behaviour in required]
    failed = [behaviour_id for behaviour_id in due if _is(ended, behaviour_id, Status.FAILED)]
    if failed:
        return Verdict.FAILED, (f"required and failed: {', '.join(failed)}",)
    reasons = [
        f"required and {status}: {', '.join(found)}"
        for status in _UNTESTED
        if (found := [behaviour_id for behaviour_id in due if _is(ended, behaviour_id, status)])
    ]
    left_out = [behaviour_id for behaviour_id in due if behaviour_id not in ended]
    if left_out:
        reasons.append(f"required and left out by --only: {len(left_out)} behaviours")
    return (Verdict.INCOMPLETE if reasons else Verdict.CERTIFIED), tuple(reasons)


def remarks(results: Sequence[Result]) -> tuple[str, ...]:
    """Return what the pattern of results says beyond each single one."""
    failed = {result.behaviour.id for result in results if result.status is Status.FAILED}
    told = []
    if failed and failed <= _BACKGROUND:
        told.append(
            "only behaviours about a quiet cursor failed: something in the background touches records"
        )
    by_profile = [result.behaviour.id for result in results if result.status is Status.NOT_APPLICABLE]
    if by_profile:
        told.append(f"not applicable to bare metal: {', '.join(by_profile)}")
    return tuple(told)


def repeat_command(behaviour_id: str, target: str, settings: Settings) -> str:
    """Return the one-line command that repeats a behaviour."""
    words = ["bigfleet", "conformance"]
    if "--start" not in settings.repeat_flags:
        words += ["--target", target]
    if settings.profiles != DEFAULT_PROFILES:
        words += ["--profile", ",".join(settings.profiles)]
    words += ["--seed", str(settings.seed), "--only", behaviour_id]
    if settings.machines != "*":
        words += ["--machines", settings.machines]
    return shlex.join([*words, *settings.repeat_flags, "--yes"])


def _is(ended: dict[str, Result], behaviour_id: str, status: Status) -> bool:
    return behaviour_id in ended and ended[behaviour_id].status is status
