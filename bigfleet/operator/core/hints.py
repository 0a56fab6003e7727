"""The spec of the AvailableCapacity for a hint.

Must never: write a price with an exponent or a confidence that the schema does not know.
Rules: `operator#available-capacity`, `wire#crd-available-capacity`.
"""

import math
from typing import Any

from bigfleet.kube.crds.available_capacity import AVAILABILITIES
from bigfleet.model.frames import CapacityHint
from bigfleet.model.profile import OPERATOR_WORDS


def hint_spec(hint: CapacityHint) -> dict[str, Any]:
    """Return the spec of the object for a hint."""
    spec: dict[str, Any] = {
        "availability": hint.confidence if hint.confidence in AVAILABILITIES else "None",
        "availableCount": hint.available,
        "cost": plain_dollars(hint.cost_per_hour),
        "resources": dict(hint.resources),
    }
    if hint.requirements:
        spec["requirements"] = [
            {
                "key": item.key,
                "operator": OPERATOR_WORDS[item.operator],
                **({"values": list(item.values)} if item.values else {}),
            }
            for item in hint.requirements
        ]
    return spec


def plain_dollars(dollars: float) -> str:
    """Return a price as a plain decimal with at most six digits after the point; 0 for an invalid price."""
    if not math.isfinite(dollars) or dollars <= 0:
        return "0"
    return f"{dollars:.6f}".rstrip("0").rstrip(".") or "0"
