"""What a run found: a result per behaviour, the verdict, and what else its reader should know.

Must never: call a provider certified of which a required behaviour was not tested.
Rules: `providers#verdict`, `providers#trap-background-work`, `providers#trap-lenient-arguments`,
`providers#trap-no-slots`, `providers#conformance`.
"""

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from bigfleet.provider.conformance.behaviour import Behaviour
from bigfleet.provider.conformance.settings import DEFAULT_PROFILES, RunSettings


class BehaviourStatus(StrEnum):
    """How a behaviour ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    NOT_APPLICABLE = "not applicable"
    NO_MACHINE = "no machine"
    NOT_RUN = "not run"


class RunVerdict(StrEnum):
    """What the run says about the provider."""

    CERTIFIED = "CERTIFIED"
    FAILED = "FAILED"
    INCOMPLETE = "INCOMPLETE"


_UNTESTED: Final = (BehaviourStatus.NO_MACHINE, BehaviourStatus.NOT_RUN)
_BACKGROUND: Final = frozenset({"B904", "B908", "B909", "B1102"})


@dataclass(frozen=True, slots=True)
class BehaviourResult:
    """How one behaviour went."""

    behaviour: Behaviour
    status: BehaviourStatus
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
class ConformanceReport:
    """One run."""

    target: str
    run_id: str
    seed: int
    profiles: tuple[str, ...]
    verdict: RunVerdict
    reasons: tuple[str, ...]
    """Why the verdict is not CERTIFIED."""
    results: tuple[BehaviourResult, ...]
    notes: tuple[str, ...]
    leftovers: tuple[str, ...]
    seconds: float

    @property
    def counts(self) -> dict[BehaviourStatus, int]:
        """How many behaviours ended in which way."""
        found = Counter(result.status for result in self.results)
        return {status: found[status] for status in BehaviourStatus}

    @property
    def score(self) -> str:
        """Passed of those that could be judged."""
        counts = self.counts
        judged = counts[BehaviourStatus.PASSED] + counts[BehaviourStatus.FAILED]
        return f"{counts[BehaviourStatus.PASSED]} of {judged} passed"

    def result(self, behaviour_id: str) -> BehaviourResult:
        """Return the result of one behaviour that was run."""
        return next(result for result in self.results if result.behaviour.id == behaviour_id)

    def ids(self, *statuses: BehaviourStatus) -> tuple[str, ...]:
        """Return the ids of the behaviours that ended in one of these ways."""
        return tuple(result.behaviour.id for result in self.results if result.status in statuses)


def judge(
    results: Sequence[BehaviourResult], required: Iterable[Behaviour]
) -> tuple[RunVerdict, tuple[str, ...]]:
    """Return the verdict and its reasons: a failure outweighs a gap, a gap outweighs success."""
    ended = {result.behaviour.id: result for result in results}
    due = [behaviour.id for behaviour in required]
    failed = [behaviour_id for behaviour_id in due if _is(ended, behaviour_id, BehaviourStatus.FAILED)]
    if failed:
        return RunVerdict.FAILED, (f"required and failed: {', '.join(failed)}",)
    reasons = [
        f"required and {status}: {', '.join(found)}"
        for status in _UNTESTED
        if (found := [behaviour_id for behaviour_id in due if _is(ended, behaviour_id, status)])
    ]
    left_out = [behaviour_id for behaviour_id in due if behaviour_id not in ended]
    if left_out:
        reasons.append(f"required and left out by --only: {len(left_out)} behaviours")
    return (RunVerdict.INCOMPLETE if reasons else RunVerdict.CERTIFIED), tuple(reasons)


def remarks(results: Sequence[BehaviourResult]) -> tuple[str, ...]:
    """Return what the pattern of results says beyond each single one."""
    failed = {result.behaviour.id for result in results if result.status is BehaviourStatus.FAILED}
    texts = []
    if failed and failed <= _BACKGROUND:
        texts.append(
            "only behaviours about a quiet cursor failed: something in the background touches records"
        )
    by_profile = [
        result.behaviour.id for result in results if result.status is BehaviourStatus.NOT_APPLICABLE
    ]
    if by_profile:
        texts.append(f"not applicable to bare metal: {', '.join(by_profile)}")
    return tuple(texts)


def repeat_command(behaviour_id: str, target: str, settings: RunSettings) -> str:
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


def _is(ended: dict[str, BehaviourResult], behaviour_id: str, status: BehaviourStatus) -> bool:
    return behaviour_id in ended and ended[behaviour_id].status is status
