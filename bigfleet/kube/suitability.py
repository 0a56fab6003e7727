"""Whether a node that is on its way could serve a request, by what both of them say of themselves.

Why: pods are told of nodes on their way, and people ask which node is for them; both must mean the same by it.
Must never: promise anything: the scheduler binds, and knows of taints, volumes and other pods. Or raise, whatever was stored.
Rules: operator 8 (events on pods), ADR-0167.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.matching import holds
from bigfleet.model.profile import Requirement, RequirementOperator
from bigfleet.model.quantity import parse_quantity

_OPERATORS: Final = {
    "In": RequirementOperator.IN,
    "NotIn": RequirementOperator.NOT_IN,
    "Exists": RequirementOperator.EXISTS,
    "DoesNotExist": RequirementOperator.DOES_NOT_EXIST,
}
# Any: the spec of an object, as the API server has it.
Spec = Mapping[str, Any]


def may_serve(node: Spec, request: Spec) -> bool:
    """Tell whether the labels and the size of an UpcomingNode satisfy a CapacityRequest, spec against spec."""
    return _satisfies(node.get("labels") or {}, request.get("requirements") or ()) and _holds(
        node.get("resources") or {}, request.get("resources") or {}
    )


def _satisfies(labels: Mapping[str, str], items: Sequence[Spec]) -> bool:
    for item in items:
        operator = _OPERATORS.get(item["operator"])
        if operator is None:  # stored before our schema refused it
            return False
        wanted = Requirement(item["key"], operator, tuple(item.get("values") or ()))
        if not holds(wanted, labels.get(item["key"])):
            return False
    return True


def _holds(size: Spec, asked: Spec) -> bool:
    """Tell whether one pod has room on an empty node; a node that does not say its size may have any."""
    if not size:
        return True
    try:
        return all(
            parse_quantity(str(amount)) <= parse_quantity(str(size.get(name, "0")))
            for name, amount in asked.items()
        )
    except InvalidFieldError:
        return False
