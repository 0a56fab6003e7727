"""Names, labels and annotations of the objects that the operator writes.

Must never: change; people and later versions find the objects by them.
Rules: `operator#upcoming-node`, `operator#hint-writes`, `operator#node-identity`, `operator#reclaim-order`,
`operator#stable-names`; ADR-0095.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from bigfleet.operator.core.label_grammar import is_object_name

_DOMAIN: Final = "bigfleet.lucy.sh"
MACHINE_ID: Final = f"{_DOMAIN}/machine-id"
"""Label of a Node, set by the bootstrap template; annotation of an UpcomingNode whose name cannot hold the id."""
RECLAIM_ID: Final = f"{_DOMAIN}/reclaim-id"
RECLAIM_DEADLINE: Final = f"{_DOMAIN}/reclaim-deadline"
CORDONED_BY: Final = f"{_DOMAIN}/cordoned-by"
HINT_PREFIX: Final = "available:"

_UPCOMING: Final = "un-"
_HINT_DIGITS: Final = 32


def upcoming_name(machine_id: str) -> str:
    """Return the name of a machine's UpcomingNode; an id that cannot be part of a name is hashed."""
    name = _UPCOMING + machine_id
    return name if is_object_name(name) else _UPCOMING + hashlib.sha256(machine_id.encode()).hexdigest()


def upcoming_annotations(machine_id: str) -> dict[str, str]:
    """Return the annotation with the machine id; empty if the name holds the id."""
    return {} if is_object_name(_UPCOMING + machine_id) else {MACHINE_ID: machine_id}


def machine_of(metadata: Mapping[str, Any]) -> str:
    """Return the machine id of an UpcomingNode."""
    annotated = (metadata.get("annotations") or {}).get(MACHINE_ID)
    return str(annotated) if annotated else str(metadata["name"]).removeprefix(_UPCOMING)


def hint_name(key: str) -> str:
    """Return the name of the AvailableCapacity for a hint's key, prefix included."""
    return f"ac-{hashlib.sha256(key.encode()).hexdigest()[:_HINT_DIGITS]}"
