"""What one CapacityRequest adds to the demand: a row and an amount, or a refusal.

Why: it is computed once, when the request is seen, so that a roll-up over 100,000 requests only counts. Equal rows and equal
amounts are one object each, so counting is by identity.
Must never: raise, whatever a request holds, or keep a row that no request has any more.
Rules: `operator#contribution`, `operator#aggregation`, `operator#spread-kept`, `operator#gang-rows`,
`operator#penalty-buckets`, `operator#left-out-requests`, `wire#fingerprint`; ADR-0027.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

from bigfleet.kube.crds.capacity_request import (
    CO_LOCATION_SCOPE,
    MAX_REQUIREMENTS,
    MAX_SPREADS,
    MAX_VALUES,
    OPERATORS,
)
from bigfleet.kube.crds.schema import MAX_RESOURCES
from bigfleet.model.buckets import UNSPECIFIED, PenaltyBucket, bucket_of_nano
from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.profile import Profile, Requirement, RequirementOperator, Spread
from bigfleet.model.quantity_text import parse_with_family
from bigfleet.operator.core.co_location import group_text
from bigfleet.operator.core.label_grammar import is_label_key, is_label_value
from bigfleet.operator.core.refusal import RefusedRequestError, RequestRefusal

MAX_REQUIREMENTS_TEXT: Final = 16 * 1024
"""Characters of all keys and values together. The schema alone would allow requests of which a few hundred make a roll-up too
large for any shard (ADR-0125)."""
_INT32: Final = 2**31
_KEY_FORM: Final = "a label key such as zone or a.example/rack"

T = TypeVar("T")
# Any: a part of a JSON document; each reader checks what it takes out.
Spec = Mapping[str, Any]


RowOrder = tuple[int, bool, str, str, int]
"""The place of a row in a roll-up; equal exactly for equal rows."""


class DemandRow:
    """What makes a row of demand that row; equal ones are one object, as `Contributions` makes them."""

    __slots__ = ("__weakref__", "for_fragments", "group", "max_units", "order", "profile")

    def __init__(
        self, profile: Profile, group: str, max_units: int = 0, *, for_fragments: bool = False
    ) -> None:
        self.profile, self.group, self.max_units, self.for_fragments = (
            profile,
            group,
            max_units,
            for_fragments,
        )
        # Fragments first within a priority: else a new machine that is cheap would serve the sum, and another one be bought.
        self.order: RowOrder = (
            -profile.priority,
            not for_fragments,
            profile.fingerprint,
            group,
            max_units,
        )


class RequestAmounts:
    """The resources of a request: name, units of 10⁻⁹, whether written in binary units; equal ones are one object."""

    __slots__ = ("__weakref__", "entries")

    def __init__(self, entries: tuple[tuple[str, int, bool], ...]) -> None:
        self.entries = entries


@dataclass(frozen=True, slots=True, eq=False)
class Contribution:
    """A valid request: its row and what it adds there."""

    row: DemandRow
    amounts: RequestAmounts


class Contributions:
    """Makes contributions and shares equal rows and amounts, by weak references."""

    def __init__(self) -> None:
        self._rows: WeakValueDictionary[tuple[Profile, str, int], DemandRow] = WeakValueDictionary()
        self._amounts: WeakValueDictionary[tuple[tuple[str, int, bool], ...], RequestAmounts] = (
            WeakValueDictionary()
        )

    def of(self, metadata: Spec, spec: object) -> Contribution | RequestRefusal:
        """Return what a request adds, or why it adds nothing."""
        try:
            if not isinstance(spec, Mapping):
                raise RefusedRequestError("requirement", "spec", spec, "an object")
            group, same = _gang(metadata, spec)
            requirements = _unique([*_requirements(spec), *same])
            _check_size(requirements)
            profile = Profile(
                requirements=requirements,
                spreads=_unique(_spreads(spec)),
                priority=_int32(spec.get("priority"), "quantity", "spec.priority"),
                interruption_bucket=_bucket(spec, "interruptionPenalty"),
                reclamation_bucket=_bucket(spec, "reclamationPenalty"),
            )
            entries = _amounts(spec.get("resources"))
            max_units = _max_per_machine(spec, entries)
        except RefusedRequestError as error:
            return error.refusal()
        return Contribution(self._row(profile, group, max_units), self._shared_amounts(entries))

    def _row(self, profile: Profile, group: str, max_units: int) -> DemandRow:
        row = self._rows.get((profile, group, max_units))
        if row is None:
            row = self._rows[profile, group, max_units] = DemandRow(profile, group, max_units)
        return row

    def _shared_amounts(self, entries: tuple[tuple[str, int, bool], ...]) -> RequestAmounts:
        amounts = self._amounts.get(entries)
        if amounts is None:
            amounts = self._amounts[entries] = RequestAmounts(entries)
        return amounts


def _gang(metadata: Spec, spec: Spec) -> tuple[str, list[Requirement]]:
    term = spec.get("coLocation")
    if term is None:
        return "", []
    if not isinstance(term, Mapping):
        raise RefusedRequestError("selector", "spec.coLocation", term, "an object")
    key = term.get("topologyKey")
    if not key:
        return "", []
    selector = term.get("labelSelector")
    if not isinstance(key, str) or not (selector is None or isinstance(selector, Mapping)):
        raise RefusedRequestError("selector", "spec.coLocation", selector, "a key and a label selector")
    annotations = metadata.get("annotations") or {}
    scope = annotations.get(CO_LOCATION_SCOPE) or metadata.get("namespace", "")
    return group_text(str(scope), key, selector), [Requirement(key, RequirementOperator.SAME)]


def _requirements(spec: Spec) -> Iterator[Requirement]:
    for place, item in enumerate(_listed(spec, "requirements", "requirement", MAX_REQUIREMENTS)):
        where = f"spec.requirements[{place}]"
        operator = OPERATORS.get(item.get("operator", ""))
        if operator is None:
            allowed = f"one of {', '.join(OPERATORS)}"
            raise RefusedRequestError("operator", f"{where}.operator", item.get("operator"), allowed)
        key, values = item.get("key"), item.get("values") or []
        if not isinstance(key, str) or not is_label_key(key):
            raise RefusedRequestError("requirement", f"{where}.key", key, _KEY_FORM)
        if not isinstance(values, Sequence) or isinstance(values, str) or len(values) > MAX_VALUES:
            raise RefusedRequestError("requirement", f"{where}.values", values, f"at most {MAX_VALUES} texts")
        if operator not in (RequirementOperator.IN, RequirementOperator.NOT_IN):
            yield Requirement(key, operator)  # values have no meaning here and would only split rows
            continue
        if not values:
            raise RefusedRequestError(
                "requirement", f"{where}.values", "none", "at least one for In and NotIn"
            )
        for value in values:
            if not isinstance(value, str) or not is_label_value(value):
                raise RefusedRequestError("requirement", f"{where}.values", value, "a label value")
        yield Requirement(key, operator, tuple(sorted(set(values))))


def _check_size(requirements: tuple[Requirement, ...]) -> None:
    size = sum(len(item.key) + sum(map(len, item.values)) for item in requirements)
    if size > MAX_REQUIREMENTS_TEXT:
        raise RefusedRequestError(
            "requirement",
            "spec.requirements",
            f"{size} characters",
            f"at most {MAX_REQUIREMENTS_TEXT} in all keys and values",
        )


def _spreads(spec: Spec) -> Iterator[Spread]:
    for place, item in enumerate(_listed(spec, "topologySpread", "spread", MAX_SPREADS)):
        if item.get("whenUnsatisfiable") != "DoNotSchedule":
            continue  # the engine ignores it, and it would only split rows
        where = f"spec.topologySpread[{place}]"
        key = item.get("topologyKey")
        if not isinstance(key, str) or not is_label_key(key):
            raise RefusedRequestError("spread", f"{where}.topologyKey", key, _KEY_FORM)
        skew = _int32(item.get("maxSkew"), "spread", f"{where}.maxSkew")
        if skew < 1:
            raise RefusedRequestError("spread", f"{where}.maxSkew", skew, "1 or more")
        yield Spread(key, skew)


def _amounts(resources: object) -> tuple[tuple[str, int, bool], ...]:
    if not isinstance(resources, Mapping) or len(resources) > MAX_RESOURCES:
        raise RefusedRequestError(
            "quantity", "spec.resources", resources, f"an object of at most {MAX_RESOURCES} amounts"
        )
    entries = []
    for name in sorted(resources):
        where = f"spec.resources[{name[:63]}]"
        nano, binary = _quantity(resources[name], where)
        if nano < 0:
            raise RefusedRequestError("quantity", where, resources[name], "an amount that is not negative")
        if not is_label_key(name):
            raise RefusedRequestError("quantity", "spec.resources", name, "resource names such as cpu")
        if nano:
            entries.append((name, nano, binary))
    return tuple(entries)


def _max_per_machine(spec: Spec, entries: tuple[tuple[str, int, bool], ...]) -> int:
    if spec.get("maxPerMachine") is None:
        return 0
    limit = _int32(spec["maxPerMachine"], "quantity", "spec.maxPerMachine")
    if limit < 1:
        raise RefusedRequestError("quantity", "spec.maxPerMachine", limit, "1 or more")
    if not entries:
        # A shard refuses the whole roll-up for a limit on units of nothing.
        raise RefusedRequestError("quantity", "spec.maxPerMachine", limit, "a limit beside resources")
    return limit


def _bucket(spec: Spec, name: str) -> PenaltyBucket:
    if spec.get(name) is None:
        return UNSPECIFIED
    nano, _ = _quantity(spec[name], f"spec.{name}")
    return bucket_of_nano(nano)


def _quantity(value: object, where: str) -> tuple[int, bool]:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise RefusedRequestError("quantity", where, value, "a quantity such as 500m or 1Gi")
    try:
        return _parsed(str(value))
    except InvalidFieldError as error:
        raise RefusedRequestError("quantity", where, value, error.allowed) from None


@lru_cache(maxsize=16384)
def _parsed(text: str) -> tuple[int, bool]:
    return parse_with_family(text)


def _int32(value: object, reason: str, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -_INT32 <= value < _INT32:
        raise RefusedRequestError(reason, where, value, "a whole number of 32 bits")
    return value


def _listed(spec: Spec, name: str, reason: str, most: int) -> Sequence[Spec]:
    found = spec.get(name) or []
    if not isinstance(found, list) or len(found) > most or not all(isinstance(e, Mapping) for e in found):
        shown = f"{len(found)} entries" if isinstance(found, list) else found
        raise RefusedRequestError(reason, f"spec.{name}", shown, f"a list of at most {most} objects")
    return found


def _unique(items: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(items))  # so that equal demand is one row
