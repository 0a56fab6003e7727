"""The interruption and reclamation penalties of a pod: from its annotations, else from its priority class.

Must never: derive one penalty from the other or from the priority, or write an amount that our schema refuses.
Rules: `operator#pod-requirements`, `operator#schema-limits`, `operator#reported-condition`; ADR-0105.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bigfleet.kube.crds.schema import GROUP
from bigfleet.model.errors import BigFleetError, InvalidFieldError
from bigfleet.model.quantity import parse_amount

FIELDS: Final = ("interruptionPenalty", "reclamationPenalty")
ANNOTATIONS: Final[Mapping[str, str]] = {
    "interruptionPenalty": f"{GROUP}/interruption-penalty",
    "reclamationPenalty": f"{GROUP}/reclamation-penalty",
}
_CLASS: Final = "a map with interruptionPenalty and reclamationPenalty, both optional"


class BadDefaultsError(BigFleetError):
    """The file of default penalties is invalid; the text names the class."""


@dataclass(frozen=True, slots=True)
class PenaltyDefaults:
    """Penalties by priority class, as texts."""

    by_class: Mapping[str, Mapping[str, str]]


_SHOWN: Final = 80
NO_DEFAULTS: Final = PenaltyDefaults({})


def read_defaults(document: object, source: str) -> PenaltyDefaults:
    """Return the defaults of a decoded file; BadDefaultsError names file, class and field of the first error."""
    if document is None:
        return NO_DEFAULTS
    if not isinstance(document, Mapping):
        raise BadDefaultsError(f"{source}: found a {type(document).__name__}, allowed is a map by class name")
    by_class: dict[str, dict[str, str]] = {}
    for name, entry in document.items():
        where = f"{source}: priority class {_shown(name)}"
        if not isinstance(name, str) or not name:
            raise BadDefaultsError(f"{where}: allowed is a text that is not empty")
        if not isinstance(entry, Mapping):
            raise BadDefaultsError(f"{where}: found {_shown(entry)}, allowed is {_CLASS}")
        by_class[name] = {key: _default(where, key, value) for key, value in entry.items()}
    return PenaltyDefaults(by_class)


def penalties_of(
    annotations: Mapping[str, str], priority_class: str, defaults: PenaltyDefaults
) -> tuple[dict[str, str], list[str]]:
    """Return the penalties that are set, each resolved on its own, and warnings."""
    found: dict[str, str] = {}
    warnings: list[str] = []
    for field in FIELDS:
        annotation = ANNOTATIONS[field]
        text = annotations.get(annotation, "")
        if text:
            try:
                parse_amount(text, annotation)
            except InvalidFieldError as error:
                warnings.append(f"annotation {error}; it counts as absent")
            else:
                found[field] = text
                continue
        default = defaults.by_class.get(priority_class, {}).get(field)
        if default is not None:
            found[field] = default
    return found, warnings


def _default(where: str, key: Any, value: Any) -> str:  # Any: whatever a file may hold
    if key not in FIELDS:
        raise BadDefaultsError(f"{where}: found key {_shown(key)}, allowed is {' or '.join(FIELDS)}")
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise BadDefaultsError(
            f"{where}: {key}: found {_shown(value)}, allowed is a quantity such as '0.5' or 4096"
        )
    try:
        parse_amount(str(value), key)
    except InvalidFieldError as error:
        raise BadDefaultsError(f"{where}: {error}") from None
    return str(value)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
