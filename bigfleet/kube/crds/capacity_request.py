"""CapacityRequest: the demand of one pod.

Why: people write this kind, so its schema refuses at once what would otherwise be left out of the roll-up.
Must never: refuse a request that the original's operator would have reported, except for the limits of
`operator#schema-limits` and `operator#reported-condition`.
Rules: `wire#crd-capacity-request`, `operator#capacity-request`, `operator#schema-limits`,
`operator#reported-condition`; ADR-0024, ADR-0027, ADR-0039.
"""

from typing import Final

from bigfleet.kube.crds.definition import AGE, Definition, PrinterColumn
from bigfleet.kube.crds.schema import (
    GROUP,
    MAX_KEY,
    MAX_RESOURCES,
    MAX_VALUE,
    Schema,
    ValidationRule,
    fields,
    listing,
    not_negative,
    quantity,
    resources,
    text,
    text_map,
    time,
    whole_number,
    with_rules,
)
from bigfleet.model.profile import OPERATOR_WORDS, RequirementOperator

OPERATORS: Final = {
    word: operator for operator, word in OPERATOR_WORDS.items() if operator is not RequirementOperator.SAME
}
"""The operators of a requirement by their names in a request; Same exists on the wire only."""

PENDING: Final = "Pending"
ACKNOWLEDGED: Final = "Acknowledged"
PHASES: Final = (PENDING, ACKNOWLEDGED)

REPORTED: Final = "Reported"
"""The one condition type of the kind."""
IN_ROLL_UP: Final = "InRollUp"

OWNED_BY_POD: Final = f"{GROUP}/owned-by-pod"
"""Label of a request that the pod controller made: the UID of its pod. Requests without it have other authors."""
CO_LOCATION_SCOPE: Final = f"{GROUP}/co-location-scope"
"""Annotation: the scope of a request's co-location, if that is not its namespace."""

MAX_REQUIREMENTS: Final = 64
MAX_VALUES: Final = 256
MAX_SPREADS: Final = 16

_KEY_NOT_EMPTY: Final = ValidationRule("self.key != ''", "key must not be empty", ".key")
_FOUR_WORDS: Final = ValidationRule(
    "self.operator in ['In', 'NotIn', 'Exists', 'DoesNotExist']",
    "operator must be In, NotIn, Exists or DoesNotExist",
    ".operator",
)
_NEEDS_VALUES: Final = ValidationRule(
    "!(self.operator in ['In', 'NotIn']) || (has(self.values) && size(self.values) > 0)",
    "operator In and NotIn need at least one value",
)
_TAKES_NO_VALUES: Final = ValidationRule(
    "!(self.operator in ['Exists', 'DoesNotExist']) || !has(self.values) || size(self.values) == 0",
    "operator Exists and DoesNotExist take no values",
)

_REQUIREMENT: Final = with_rules(
    fields(
        {
            "key": text("The label key that the requirement is about.", most=MAX_KEY),
            "operator": text(
                "In, NotIn, Exists or DoesNotExist. Co-location is asked for by coLocation, never by an operator.",
                most=MAX_VALUE,
            ),
            "values": listing(
                text(most=MAX_VALUE),
                "The values that In and NotIn speak of; none otherwise.",
                most=MAX_VALUES,
            ),
        },
        required=("key", "operator"),
    ),
    _KEY_NOT_EMPTY,
    _FOUR_WORDS,
    _NEEDS_VALUES,
    _TAKES_NO_VALUES,
)

_SPREAD: Final = with_rules(
    fields(
        {
            "topologyKey": text("The label key over whose values to spread.", most=MAX_KEY),
            "maxSkew": whole_number("By how many the values may differ, at least 1."),
            "whenUnsatisfiable": text(
                "DoNotSchedule is binding; ScheduleAnyway is accepted and not reported.", most=MAX_VALUE
            ),
        },
        required=("topologyKey", "maxSkew", "whenUnsatisfiable"),
    ),
    ValidationRule("self.topologyKey != ''", "topologyKey must not be empty", ".topologyKey"),
    ValidationRule("self.maxSkew >= 1", "maxSkew must be at least 1", ".maxSkew"),
    ValidationRule(
        "self.whenUnsatisfiable in ['DoNotSchedule', 'ScheduleAnyway']",
        "whenUnsatisfiable must be DoNotSchedule or ScheduleAnyway",
        ".whenUnsatisfiable",
    ),
)

_SELECTOR: Final = fields(
    {
        "matchLabels": text_map("Labels that the pods bear, each with this value."),
        "matchExpressions": listing(
            fields(
                {
                    "key": text("The label key."),
                    "operator": text("In, NotIn, Exists or DoesNotExist."),
                    "values": listing(text(), "The values that the operator speaks of."),
                },
                required=("key", "operator"),
            ),
            "Further conditions on the labels of the pods.",
        ),
    },
    description="Which pods belong together; a label selector as in pod affinity.",
    atomic=True,
)

_CO_LOCATION: Final = with_rules(
    fields(
        {
            "topologyKey": text("The label key whose value all machines of the group share.", most=MAX_KEY),
            "labelSelector": _SELECTOR,
        },
        required=("topologyKey",),
        description="Set when the pods of a group must run in one topology domain; from required pod affinity.",
    ),
    ValidationRule("self.topologyKey != ''", "coLocation.topologyKey must not be empty", ".topologyKey"),
)


def _resources() -> Schema:
    schema = resources("What one pod requests: resource name to amount. An empty map is allowed.")
    schema["maxProperties"] = MAX_RESOURCES
    schema["additionalProperties"] = with_rules(quantity(bounded=True), not_negative("a resource amount"))
    return with_rules(
        schema,
        ValidationRule(
            f"self.all(name, name != '' && size(name) <= {MAX_KEY})",
            f"resource names must have 1 to {MAX_KEY} characters",
        ),
    )


def _penalty(field: str, description: str) -> Schema:
    return with_rules(quantity(description, bounded=True), not_negative(field))


_SPEC: Final = with_rules(
    fields(
        {
            "requirements": listing(
                _REQUIREMENT,
                "What the labels of a machine must satisfy; all must hold.",
                most=MAX_REQUIREMENTS,
            ),
            "resources": _resources(),
            "priority": whole_number("The value of the pod's priority class; larger is served first."),
            "topologySpread": listing(
                _SPREAD, "How the machines of equal requests are to be spread.", most=MAX_SPREADS
            ),
            "coLocation": _CO_LOCATION,
            "maxPerMachine": with_rules(
                whole_number(
                    "How many such pods a machine is wanted for at most, whatever else it has; absent means no limit."
                ),
                ValidationRule("self >= 1", "maxPerMachine must be at least 1"),
            ),
            "interruptionPenalty": _penalty(
                "interruptionPenalty", "Dollars that one interruption of the pod costs; absent counts as 0."
            ),
            "reclamationPenalty": _penalty(
                "reclamationPenalty", "Dollars of value tied to the particular machine; absent counts as 0."
            ),
        },
        required=("priority", "resources"),
        description="The demand. It stands until the object is deleted.",
    ),
    ValidationRule(
        "!has(self.maxPerMachine) || size(self.resources) > 0",
        "maxPerMachine needs resources",
        ".maxPerMachine",
    ),
)

_CONDITION: Final = fields(
    {
        "type": text(
            "What the condition is about: Reported.",
            most=316,
            pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
            r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
        ),
        "status": text("True, False or Unknown.", words=("True", "False", "Unknown")),
        "reason": text("One word for why.", most=1024, pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"),
        "message": text("A sentence for people, naming the field at fault.", most=32768),
        "lastTransitionTime": time("When the status last changed."),
        "observedGeneration": {
            **whole_number("The generation of the spec that was looked at.", bits=64),
            "minimum": 0,
        },
    },
    required=("type", "status", "reason", "message", "lastTransitionTime"),
)

_STATUS: Final = fields(
    {
        "phase": text(
            "Pending, then Acknowledged once the request was part of a roll-up that left the operator. "
            "Acknowledged does not mean that capacity exists.",
            words=PHASES,
        ),
        "acknowledgedAt": time("When the request became Acknowledged."),
        "conditions": listing(
            _CONDITION, "Reported: whether the request is in the demand that is sent, and why not.", by="type"
        ),
    },
    required=("phase",),
    description="Written by the operator alone.",
)

CAPACITY_REQUEST: Final = Definition(
    kind="CapacityRequest",
    plural="capacityrequests",
    short_names=("cr", "crs"),
    namespaced=True,
    description="A CapacityRequest states the demand of one pod for the pod's whole life. Deleting it withdraws the demand.",
    spec=_SPEC,
    status=_STATUS,
    columns=(
        PrinterColumn(
            "Phase", "string", ".status.phase", "Pending or Acknowledged; empty counts as Pending."
        ),
        PrinterColumn(
            "Reason",
            "string",
            f'.status.conditions[?(@.type=="{REPORTED}")].reason',
            "Why the request is, or is not, part of the demand that is sent.",
        ),
        PrinterColumn("Priority", "integer", ".spec.priority", "Larger is served first."),
        AGE,
    ),
    selectable=(".status.phase",),
)
