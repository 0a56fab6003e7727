"""Builders of structural OpenAPI schemas, and the shapes that our kinds share.

Must never: accept less than the original, except for the limits and rules of `operator#schema-limits` and
`operator#reported-condition`; stored objects must stay readable.
Rules: `wire#custom-resources`, `operator#schema-limits`, `operator#reported-condition`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

# Any: a schema is a JSON document, whose values are texts, numbers, lists and further documents.
Schema = dict[str, Any]

GROUP: Final = "bigfleet.lucy.sh"
VERSION: Final = "v1alpha1"
CATEGORY: Final = "fleet"

QUANTITY_PATTERN: Final = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
MAX_KEY: Final = 317  # 253 for the prefix, the slash, 63 for the name
MAX_VALUE: Final = 63
MAX_QUANTITY: Final = 64  # what bigfleet.model.quantity reads at most
MAX_RESOURCES: Final = 64


@dataclass(frozen=True, slots=True)
class ValidationRule:
    """A validation rule in the API server's expression language, and its error message."""

    expression: str
    message: str
    field_path: str = ""

    def as_document(self) -> Schema:
        """Return an entry of `x-kubernetes-validations`."""
        document: Schema = {"rule": self.expression, "message": self.message}
        return {**document, "fieldPath": self.field_path} if self.field_path else document


def with_rules(schema: Schema, *rules: ValidationRule) -> Schema:
    """Return a copy of a schema with validation rules."""
    return {**schema, "x-kubernetes-validations": [rule.as_document() for rule in rules]}


def described(schema: Schema, description: str) -> Schema:
    """Return a copy of a schema with the description that `kubectl explain` shows."""
    return {"description": description, **schema}


def text(
    description: str = "", *, most: int | None = None, words: Sequence[str] = (), pattern: str = ""
) -> Schema:
    """Return the schema of a text, optionally one of a few words."""
    schema: Schema = {"type": "string"}
    if most is not None:
        schema["maxLength"] = most
    if words:
        schema["enum"] = list(words)
    if pattern:
        schema["pattern"] = pattern
    return described(schema, description) if description else schema


def time(description: str) -> Schema:
    """Return the schema of an RFC 3339 time."""
    return {"description": description, "type": "string", "format": "date-time"}


def whole_number(description: str, *, bits: int = 32) -> Schema:
    """Return the schema of an integer."""
    return {"description": description, "type": "integer", "format": f"int{bits}"}


def fields(
    properties: Mapping[str, Schema],
    *,
    required: Sequence[str] = (),
    description: str = "",
    atomic: bool = False,
) -> Schema:
    """Return the schema of an object with known fields; unknown ones are pruned by the API server."""
    schema: Schema = {"type": "object"}
    if properties:
        schema["properties"] = dict(properties)
    if required:
        schema["required"] = sorted(required)
    if atomic:
        schema["x-kubernetes-map-type"] = "atomic"
    return described(schema, description) if description else schema


def listing(items: Schema, description: str, *, most: int | None = None, by: str = "") -> Schema:
    """Return the schema of a list: replaced as a whole, or merged by the field `by`."""
    schema: Schema = {"description": description, "type": "array", "items": items}
    if most is not None:
        schema["maxItems"] = most
    if by:
        return {**schema, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [by]}
    return {**schema, "x-kubernetes-list-type": "atomic"}


def text_map(description: str = "") -> Schema:
    """Return the schema of a map from text to text."""
    schema: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
    return described(schema, description) if description else schema


def quantity(description: str = "", *, bounded: bool = False) -> Schema:
    """Return the schema of a Kubernetes quantity, an integer or a text of the standard grammar."""
    schema: Schema = {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": QUANTITY_PATTERN,
        "x-kubernetes-int-or-string": True,
    }
    if bounded:
        schema["maxLength"] = MAX_QUANTITY
    return described(schema, description) if description else schema


def not_negative(what: str) -> ValidationRule:
    """Return the rule that a quantity is not below zero.

    By its sign and not by `quantity()`: the server assumes three megabytes for a text of this kind when it estimates the cost of
    a rule, and would refuse the definition.
    """
    return ValidationRule(
        "type(self) == int ? self >= 0 : !self.startsWith('-')", f"{what} must not be negative"
    )


def resources(description: str) -> Schema:
    """Return the schema of a map from resource name to quantity, as the original has it."""
    return {"description": description, "type": "object", "additionalProperties": quantity()}


def requirement(operator_note: str) -> Schema:
    """Return the schema of one requirement on a label, as the original has it."""
    return fields(
        {
            "key": text("The label key that the requirement is about."),
            "operator": text(operator_note),
            "values": listing(text(), "The values that the operator speaks of."),
        },
        required=("key", "operator"),
    )
