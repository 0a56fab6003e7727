"""Machines in a document: the form, the reader, the writer.

Why: a record typed by hand must be as sound as one from a provider, so the invariants of the model are checked here too.
Must never: hold two copies of one shape; a fleet of 225,000 machines has a few thousand shapes.
Rules: `engine#snapshot-defaults`, `engine#machine-invariants`, `engine#transitions`, `engine#quantities`, `providers#states`.
"""

import math
from dataclasses import astuple

from bigfleet.document.canonical import plain, without_defaults
from bigfleet.document.errors import DocumentError, from_model, quoted
from bigfleet.document.fields import INT32, REQUIRED, Fields, Form, checked_texts
from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.frozen_map import NO_TEXTS, FrozenMap
from bigfleet.model.machine import (
    NO_HOST,
    TRANSITIONS,
    Assignment,
    CapacityType,
    HostRef,
    Machine,
    NeedRef,
    Shape,
    check,
)

MACHINE: Form = {
    "id": REQUIRED,
    "state": REQUIRED,
    "host": None,
    "cluster": "",
    "instance_type": "",
    "zone": "",
    "capacity_type": "Unspecified",
    "resources": {},
    "allocatable": {},
    "labels": {},
    "price_per_hour": 0,
    "interruption_probability": 0,
    "assigned_priority": 0,
    "assigned_interruption_penalty": 0,
    "assigned_reclamation_penalty": 0,
    "assigned_fingerprint": "",
    "assigned_group": "",
    "assigned_cluster": "",
    "draining_for": None,
    "drain_grace_remaining_seconds": 0,
    "idle_since": None,
    "last_error": "",
}
HOST: Form = {"provider": REQUIRED, "ref": REQUIRED}
DRAINING_FOR: Form = {"cluster": REQUIRED, "fingerprint": REQUIRED, "group": ""}

_STATES = {state.label: state for state in TRANSITIONS}
_CAPACITY_TYPES = {kind.label: kind for kind in CapacityType}
_NOT_NEGATIVE = "a finite number that is not negative"


class MachineReader:
    """Reads the machines of one document; equal shapes, maps and stamps become one object each."""

    def __init__(self) -> None:
        self._maps: dict[tuple[tuple[str, object], ...], FrozenMap[str]] = {(): NO_TEXTS}
        self._shapes: dict[tuple[object, ...], Shape] = {}
        self._stamps: dict[tuple[object, ...], Assignment] = {}

    def read(self, fields: Fields) -> Machine:
        """Read one machine, or refuse it by field, naming the machine where a rule of its state is broken."""
        machine = Machine(
            id=fields.name("id"),
            state=fields.choice("state", _STATES),
            shape=self._shape(fields),
            host=_host(fields),
            cluster=fields.text("cluster"),
            assigned=self._assigned(fields),
            last_error=fields.text("last_error"),
            idle_since=fields.number_or_null("idle_since"),
            draining_for=_draining_for(fields),
            drain_grace_remaining_s=fields.number(
                "drain_grace_remaining_seconds", low=0, allowed=_NOT_NEGATIVE
            ),
        )
        try:
            check(machine)
        except InvalidFieldError as error:
            raise _broken_rule(machine, fields, error) from None
        return machine

    def _shape(self, fields: Fields) -> Shape:
        # Looked up before it is made: there are far fewer shapes than machines.
        key = (
            fields.text("instance_type"),
            fields.text("zone"),
            fields.choice("capacity_type", _CAPACITY_TYPES),
            fields.number("price_per_hour", low=0, allowed=_NOT_NEGATIVE),
            fields.number("interruption_probability", allowed="a number from 0 to 1"),
            self._texts(fields, "resources"),
            self._texts(fields, "allocatable"),
            self._texts(fields, "labels"),
        )
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = Shape(*key)
        return shape

    def _assigned(self, fields: Fields) -> Assignment:
        key = (
            fields.integer("assigned_priority", INT32),
            fields.dollars("assigned_interruption_penalty"),
            fields.dollars("assigned_reclamation_penalty"),
            fields.text("assigned_fingerprint"),
            fields.text("assigned_group"),
            fields.text("assigned_cluster"),
        )
        stamp = self._stamps.get(key)
        if stamp is None:
            stamp = self._stamps[key] = Assignment(*key)
        return stamp

    def _texts(self, fields: Fields, name: str) -> FrozenMap[str]:
        raw = fields.mapping(name)
        entries = tuple(raw.items())
        try:
            known = self._maps.get(entries)
        except TypeError:  # a list or an object where a text belongs cannot be looked up; refused below
            known = None
        if known is None:
            known = FrozenMap(checked_texts(raw, name))
            self._maps[entries] = known
        return known


def _host(fields: Fields) -> HostRef:
    host = fields.part_or_null("host", HOST)
    if host is None:
        return NO_HOST
    try:
        return HostRef(host.text("provider"), host.text("ref"))
    except DocumentError as error:
        raise error.under("host") from None


def _draining_for(fields: Fields) -> NeedRef | None:
    part = fields.part_or_null("draining_for", DRAINING_FOR)
    if part is None:
        return None
    try:
        return NeedRef(part.name("cluster"), part.text("fingerprint"), part.text("group"))
    except DocumentError as error:
        raise error.under("draining_for") from None


def _broken_rule(machine: Machine, fields: Fields, error: InvalidFieldError) -> DocumentError:
    allowed = f"{error.allowed} (machine {quoted(machine.id)})"
    return DocumentError(from_model(error).field, fields.shown(error.field, error.found), allowed)


def machine_object(machine: Machine) -> dict[str, object]:
    """A machine as JSON has it, defaults left out; the provider's metadata has no place in it."""
    shape, assigned = machine.shape, machine.assigned
    full = (
        machine.id,
        machine.state.label,
        {"provider": machine.host.provider, "ref": machine.host.ref} if machine.host else None,
        machine.cluster,
        shape.instance_type,
        shape.zone,
        shape.capacity_type.label,
        dict(shape.resources.items()),
        dict(shape.allocatable.items()),
        dict(shape.labels.items()),
        plain(shape.price_per_hour),
        plain(shape.interruption_probability),
        assigned.priority,
        _dollars(assigned.interruption_penalty),
        _dollars(assigned.reclamation_penalty),
        assigned.fingerprint,
        assigned.group,
        assigned.cluster,
        _draining_for_object(machine.draining_for),
        plain(machine.drain_grace_remaining_s),
        None if machine.idle_since is None else plain(machine.idle_since),
        machine.last_error,
    )
    return without_defaults(MACHINE, full)


def _dollars(penalty: float) -> int | float | str:
    return "pinned" if penalty == math.inf else plain(penalty)


def _draining_for_object(need: NeedRef | None) -> dict[str, object] | None:
    return None if need is None else without_defaults(DRAINING_FOR, astuple(need))
