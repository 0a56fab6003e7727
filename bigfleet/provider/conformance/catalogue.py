"""The table of all behaviours, in the order in which they run and are listed.

Must never: hold an id twice; a test compares it with the 27 + 93 + 12 of the contract.
Rules: `providers#families`, `providers#family-extra`.
"""

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Final

from bigfleet.model.errors import InvalidFieldError
from bigfleet.provider.conformance.behaviour import Behaviour, Lane, Prerequisite
from bigfleet.provider.conformance.families.arguments import ARGUMENTS
from bigfleet.provider.conformance.families.baseline import BASELINE
from bigfleet.provider.conformance.families.baseline_fencing import BASELINE_FENCING
from bigfleet.provider.conformance.families.concurrency import CONCURRENCY
from bigfleet.provider.conformance.families.durable import DURABLE
from bigfleet.provider.conformance.families.extra import EXTRA, LEAKS, SIZES
from bigfleet.provider.conformance.families.extra_process import PROCESS, SUBSTRATE
from bigfleet.provider.conformance.families.fault import FAULT
from bigfleet.provider.conformance.families.fencing import FENCING
from bigfleet.provider.conformance.families.fields import FIELDS
from bigfleet.provider.conformance.families.fuzz import FUZZ
from bigfleet.provider.conformance.families.lifecycle import LIFECYCLE
from bigfleet.provider.conformance.families.listing import LISTING
from bigfleet.provider.conformance.families.metadata import METADATA
from bigfleet.provider.conformance.families.refusals import GHOSTS, REFUSALS
from bigfleet.provider.conformance.families.scale import SCALE
from bigfleet.provider.conformance.families.self_test import SELF_TEST
from bigfleet.provider.conformance.settings import ConformanceProfile, RunSettings


def _key(behaviour: Behaviour) -> tuple[str, int]:
    return behaviour.id[0], int(behaviour.id[1:])


BEHAVIOURS: Final[tuple[Behaviour, ...]] = tuple(
    sorted(
        (
            *BASELINE,
            *BASELINE_FENCING,
            *SELF_TEST,
            *LIFECYCLE,
            *REFUSALS,
            *ARGUMENTS,
            *GHOSTS,
            *FENCING,
            *CONCURRENCY,
            *METADATA,
            *FAULT,
            *FIELDS,
            *LISTING,
            *DURABLE,
            *SCALE,
            *FUZZ,
            *EXTRA,
            *PROCESS,
            *SIZES,
            *SUBSTRATE,
            *LEAKS,
        ),
        key=_key,
    )
)
_ALWAYS: Final = (Lane.BASELINE, Lane.SELF_TEST)


def find(behaviour_id: str) -> Behaviour:
    """Return a behaviour by its id."""
    for behaviour in BEHAVIOURS:
        if behaviour.id == behaviour_id.upper():
            return behaviour
    raise InvalidFieldError(
        "behaviour", behaviour_id, "an id such as A01, B303 or X12; --list prints them all"
    )


def required(settings: RunSettings) -> tuple[Behaviour, ...]:
    """Return what the verdict rests on: the baseline, what the profiles demand, and with `extra` the further ones."""
    return tuple(behaviour for behaviour in BEHAVIOURS if _counts(behaviour, settings))


def selected(settings: RunSettings) -> tuple[Behaviour, ...]:
    """Return what is to run, in order; `InvalidFieldError` when the patterns match nothing."""
    if not settings.only:
        return tuple(
            behaviour
            for behaviour in BEHAVIOURS
            if _counts(behaviour, settings)
            or (behaviour.lane is Lane.EXTRA and Prerequisite.LONG not in behaviour.needs)
        )
    chosen = tuple(behaviour for behaviour in BEHAVIOURS if _matches(behaviour, settings.only))
    if not chosen:
        raise InvalidFieldError(
            "only", ", ".join(settings.only), "patterns of behaviour ids such as B303 or B3*"
        )
    return chosen


def listing() -> Iterator[dict[str, object]]:
    """Yield a row per behaviour, for `--list`."""
    for behaviour in BEHAVIOURS:
        needs = ", ".join(need.value for need in behaviour.needs)
        yield {
            "id": behaviour.id,
            "name": behaviour.name,
            "counts_for": behaviour.counts_for,
            "needs": needs,
            "meaning": behaviour.meaning,
        }


def _counts(behaviour: Behaviour, settings: RunSettings) -> bool:
    if behaviour.lane in _ALWAYS:
        return True
    if behaviour.lane is Lane.EXTRA:
        return settings.extra
    profiles = [
        ConformanceProfile.CORE if profile is ConformanceProfile.BARE_METAL else profile
        for profile in settings.profiles
    ]
    return any(profile in profiles for profile in behaviour.profiles)


def _matches(behaviour: Behaviour, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(behaviour.id, pattern.upper()) for pattern in patterns)
