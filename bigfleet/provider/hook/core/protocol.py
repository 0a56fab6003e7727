"""The protocol of hooks: JSON on standard input, and an optional JSON line on standard output.

Must never: put the bootstrap blob into the input; it is in a separate file.
Rules: `providers#hook-protocol`.

The input has one member per line, indented by depth, so that a script can read a value with sed: members of `machine` are
indented by four blanks, those of its maps by six.
"""

import json
from dataclasses import dataclass
from typing import Final

from bigfleet.model.frozen_map import NO_TEXTS, FrozenMap
from bigfleet.model.machine import Shape
from bigfleet.provider.hook.core import fields
from bigfleet.provider.hook.core.errors import HookOutputError
from bigfleet.provider.hook.core.fields import CAPACITY_TYPES, FaultList
from bigfleet.provider.hook.core.inventory import HookKind

VERSION: Final = 1
BLOB_VARIABLE: Final = "BF_BLOB_FILE"
DRY_RUN_VARIABLE: Final = "BF_DRY_RUN"
INHERITED: Final = ("PATH", "HOME", "LANG")
DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_OUTPUT_KEYS: Final = ("ref", "resources", "allocatable", "labels", "message")
_CAPACITY_NAMES: Final = {value: name for name, value in CAPACITY_TYPES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class HookMachine:
    """The machine of a call as the hook sees it."""

    id: str
    ref: str
    shape: Shape
    vars: FrozenMap[str] = NO_TEXTS


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRequest:
    """One call of a hook."""

    kind: HookKind
    operation_id: str = ""
    subject: HookMachine | None = None
    cluster: str = ""
    grace_seconds: int = 0
    deadline_seconds: int = 0
    attempt: int = 1

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments of the command: its kind and, except for discover, the machine."""
        return (self.kind.value,) if self.subject is None else (self.kind.value, self.subject.id)

    def encode(self) -> bytes:
        document = {
            "version": VERSION,
            "operation_id": self.operation_id,
            "kind": self.kind.value,
            "machine": None if self.subject is None else _machine(self.subject),
            "cluster": self.cluster,
            "grace_seconds": self.grace_seconds,
            "deadline_seconds": self.deadline_seconds,
            "attempt": self.attempt,
        }
        return json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class HookOutput:
    """The content of the last line of output; absent members are None or empty."""

    ref: str = ""
    resources: FrozenMap[str] | None = None
    allocatable: FrozenMap[str] | None = None
    labels: FrozenMap[str] = NO_TEXTS
    message: str = ""


NO_OUTPUT: Final = HookOutput()


def read_output(output: bytes) -> HookOutput:
    """Read the last line if it is a JSON object; ignore any other last line."""
    lines = output.decode(errors="replace").strip().splitlines()
    last = lines[-1].strip() if lines else ""
    if not last.startswith("{"):
        return NO_OUTPUT
    try:
        document = json.loads(last)
    except (ValueError, RecursionError):
        return NO_OUTPUT
    faults = FaultList("the last line of output")
    faults.unknown(document, "", _OUTPUT_KEYS)
    read = HookOutput(
        ref=fields.text(document, "ref", "", faults),
        resources=fields.texts(document, "resources", "", faults) if "resources" in document else None,
        allocatable=fields.texts(document, "allocatable", "", faults) if "allocatable" in document else None,
        labels=fields.texts(document, "labels", "", faults),
        message=fields.text(document, "message", "", faults),
    )
    if faults.texts:
        raise HookOutputError("; ".join(faults.texts))
    return read


def _machine(subject: HookMachine) -> dict[str, object]:
    shape = subject.shape
    return {
        "id": subject.id,
        "ref": subject.ref,
        "instance_type": shape.instance_type,
        "zone": shape.zone,
        "capacity_type": _CAPACITY_NAMES.get(shape.capacity_type, ""),
        "price_per_hour": shape.price_per_hour,
        "interruption_probability": shape.interruption_probability,
        "resources": dict(shape.resources),
        "allocatable": dict(shape.allocatable),
        "labels": dict(shape.labels),
        "vars": dict(subject.vars),
    }
