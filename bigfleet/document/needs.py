"""Needs in a document: the form, the reader, the writer.

Why: demand typed by hand or saved from a shard must give the very profiles, and so fingerprints, that a roll-up gives.
Rules: `engine#snapshot-defaults`, `engine#snapshot-order`, `engine#quantities`, `engine#snapshot-decision`,
`engine#snapshot-parked`. `Unspecified` is understood where the wire can carry it, so that a shard can write down
whatever demand it was sent; such a requirement holds nowhere, such a spread binds no need.
"""

from bigfleet.document.canonical import without_defaults
from bigfleet.document.errors import DocumentError, from_model
from bigfleet.document.fields import INT32, INT64, REQUIRED, Extras, Fields, Form, checked_texts, under
from bigfleet.model.buckets import PINNED, PenaltyBucket
from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.need import Need
from bigfleet.model.profile import Profile, Requirement, RequirementOperator, Spread, WhenUnsatisfiable
from bigfleet.model.resources import ZERO, Resources

NEED: Form = {
    "cluster": REQUIRED,
    "requirements": [],
    "topology_spread": [],
    "priority": 0,
    "interruption_penalty_bucket": 1,
    "reclamation_penalty_bucket": 1,
    "total": {},
    "unit": {},
    "group": "",
    "arrival": 0,
    "max_units_per_machine": 0,
    "for_fragments": False,
}
REQUIREMENT: Form = {"key": REQUIRED, "operator": REQUIRED, "values": []}
SPREAD: Form = {"topology_key": REQUIRED, "max_skew": REQUIRED, "when_unsatisfiable": REQUIRED}

_OPERATOR_TEXTS = {
    RequirementOperator.IN: "In",
    RequirementOperator.NOT_IN: "NotIn",
    RequirementOperator.EXISTS: "Exists",
    RequirementOperator.DOES_NOT_EXIST: "DoesNotExist",
    RequirementOperator.SAME: "Same",
    RequirementOperator.UNSPECIFIED: "Unspecified",
}
_WHEN_TEXTS = {
    WhenUnsatisfiable.DO_NOT_SCHEDULE: "DoNotSchedule",
    WhenUnsatisfiable.SCHEDULE_ANYWAY: "ScheduleAnyway",
    WhenUnsatisfiable.UNSPECIFIED: "Unspecified",
}
_OPERATORS = {text: operator for operator, text in _OPERATOR_TEXTS.items()}
_WHENS = {text: when for when, text in _WHEN_TEXTS.items()}
_BUCKETS = (0, int(PINNED))
_COUNTS = (0, INT32[1])


class NeedReader:
    """Reads the needs of one document; equal profiles become one object, whose fingerprint is made once."""

    def __init__(self) -> None:
        self._profiles: dict[Profile, Profile] = {}

    def read(self, fields: Fields) -> Need:
        """Read one need, or refuse it by field."""
        return Need(
            cluster=fields.name("cluster"),
            profile=self._profile(fields),
            total=_amounts(fields, "total"),
            unit=(unit := _amounts(fields, "unit")),
            arrival_ns=fields.integer("arrival", INT64),
            group=fields.text("group"),
            max_units=_max_units(fields, unit),
            for_fragments=fields.flag("for_fragments"),
        )

    def _profile(self, fields: Fields) -> Profile:
        requirements, of_requirements = fields.items("requirements", REQUIREMENT, _requirement)
        spreads, of_spreads = fields.items("topology_spread", SPREAD, _spread)
        if of_requirements:
            _keep(fields, "requirements", _sorted_places(requirements), of_requirements)
        if of_spreads:
            _keep(fields, "topology_spread", _sorted_places(spreads), of_spreads)
        profile = Profile(
            requirements=tuple(requirements),
            spreads=tuple(spreads),
            priority=fields.integer("priority", INT32),
            interruption_bucket=PenaltyBucket(fields.integer("interruption_penalty_bucket", _BUCKETS)),
            reclamation_bucket=PenaltyBucket(fields.integer("reclamation_penalty_bucket", _BUCKETS)),
        )
        return self._profiles.setdefault(profile, profile)


def _sorted_places(items: list[Requirement] | list[Spread]) -> list[int]:
    """The place in a profile, which sorts what it holds, of each item in the file."""
    order = sorted(range(len(items)), key=items.__getitem__)
    return sorted(range(len(items)), key=order.__getitem__)


def _keep(fields: Fields, name: str, places: list[int], extras: dict[int, Extras]) -> None:
    moved = dict(fields.extras)
    for place, kept in extras.items():
        moved.update(under((name, places[place]), kept))
    fields.extras = moved


def _requirement(fields: Fields) -> Requirement:
    return Requirement(fields.text("key"), fields.choice("operator", _OPERATORS), fields.texts("values"))


def _spread(fields: Fields) -> Spread:
    return Spread(
        fields.text("topology_key"),
        fields.integer("max_skew", INT32),
        fields.choice("when_unsatisfiable", _WHENS),
    )


def _max_units(fields: Fields, unit: Resources) -> int:
    limit = fields.integer("max_units_per_machine", _COUNTS)
    if limit and unit.is_zero:
        raise DocumentError("max_units_per_machine", str(limit), "0, or a unit beside it: it counts units")
    return limit


def _amounts(fields: Fields, name: str) -> Resources:
    texts = checked_texts(fields.mapping(name), name)
    if not texts:
        return ZERO
    try:
        return Resources.parse(texts)
    except InvalidFieldError as error:
        raise from_model(error).under(name) from None


def need_object(need: Need) -> dict[str, object]:
    """A need as JSON has it: defaults left out, amounts as exact decimal text."""
    profile = need.profile
    requirements = [
        without_defaults(REQUIREMENT, (item.key, _OPERATOR_TEXTS[item.operator], list(item.values)))
        for item in profile.requirements
    ]
    spreads = [
        without_defaults(SPREAD, (item.topology_key, item.max_skew, _WHEN_TEXTS[item.when_unsatisfiable]))
        for item in profile.spreads
    ]
    full = (
        need.cluster,
        requirements,
        spreads,
        profile.priority,
        profile.interruption_bucket,
        profile.reclamation_bucket,
        need.total.texts(),
        need.unit.texts(),
        need.group,
        need.arrival_ns,
        need.max_units,
        need.for_fragments,
    )
    return without_defaults(NEED, full)
