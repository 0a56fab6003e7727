"""Requirements and spreads: the wire's form to and from the model's.

Why: roll-ups, bootstrap requests, hints, shortfalls and move selectors all carry them.
Rules: `wire#requirements`. An unknown operator is refused, since ignoring one would widen the choice of machines; an
unknown when-unsatisfiable reads as unspecified, which binds nothing.
"""

from collections.abc import Iterable

from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.profile import Requirement, RequirementOperator, Spread, WhenUnsatisfiable
from bigfleet.v1alpha1 import capacity_pb2 as pb

_OPERATOR_NUMBERS = {int(operator): operator for operator in RequirementOperator}
_WHEN_NUMBERS = {int(when): when for when in WhenUnsatisfiable}


def requirement_from_proto(message: pb.NodeSelectorRequirement) -> Requirement:
    """Read one requirement."""
    operator = _OPERATOR_NUMBERS.get(message.operator)
    if operator is None:
        raise InvalidFieldError(
            "operator", int(message.operator), f"an operator from 0 to {max(_OPERATOR_NUMBERS)}"
        )
    return Requirement(message.key, operator, tuple(message.values))


def requirements_to_proto(requirements: Iterable[Requirement]) -> list[pb.NodeSelectorRequirement]:
    """Write requirements in their canonical order."""
    return [
        pb.NodeSelectorRequirement(
            key=item.key,
            operator=pb.NodeSelectorRequirement.Operator.ValueType(int(item.operator)),
            values=item.values,
        )
        for item in requirements
    ]


def spread_from_proto(message: pb.TopologySpread) -> Spread:
    """Read one spread."""
    when = _WHEN_NUMBERS.get(message.when_unsatisfiable, WhenUnsatisfiable.UNSPECIFIED)
    return Spread(message.topology_key, message.max_skew, when)


def spreads_to_proto(spreads: Iterable[Spread]) -> list[pb.TopologySpread]:
    """Write spreads in their canonical order."""
    return [
        pb.TopologySpread(
            topology_key=item.topology_key,
            max_skew=item.max_skew,
            when_unsatisfiable=pb.TopologySpread.WhenUnsatisfiable.ValueType(int(item.when_unsatisfiable)),
        )
        for item in spreads
    ]
