"""Whether an UpcomingNode could serve a CapacityRequest, by labels and resources.

Why: pod events and the kubectl plugin must agree on it. It is no promise: the scheduler also knows taints, volumes and other pods.
Must never: raise, whatever is stored.
Rules: `operator#operator-metrics`; ADR-0167.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from bigfleet.kube.crds.capacity_request import OPERATORS
from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.matching import holds
from bigfleet.model.profile import Requirement
from bigfleet.model.quantity import parse_quantity

# Any: the spec of an object, as the API server has it.
Spec = Mapping[str, Any]


def may_serve(node: Spec, request: Spec) -> bool:
    """Return whether the labels and resources of an UpcomingNode satisfy a CapacityRequest, spec against spec."""
    return _satisfies(node.get("labels") or {}, request.get("requirements") or ()) and _holds(
        node.get("resources") or {}, request.get("resources") or {}
    )


def _satisfies(labels: Mapping[str, str], items: Sequence[Spec]) -> bool:
    for item in items:
        operator = OPERATORS.get(item["operator"])
        if operator is None:  # stored before our schema refused it
            return False
        wanted = Requirement(item["key"], operator, tuple(item.get("values") or ()))
        if not holds(wanted, labels.get(item["key"])):
            return False
    return True


def _holds(size: Spec, asked: Spec) -> bool:
    """Return whether one pod fits on an empty node; a node without resources may have any size."""
    if not size:
        return True
    try:
        return all(
            parse_quantity(str(amount)) <= parse_quantity(str(size.get(name, "0")))
            for name, amount in asked.items()
        )
    except InvalidFieldError:
        return False
