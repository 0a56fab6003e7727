"""Edits of the fleet: more machines, fewer machines, other prices.

Why: most questions about a fleet begin with "what if we had", "what if we lost" or "what if it cost".
Must never: make a machine that a snapshot document could not hold; every new or changed record is read by the reader of
documents, so the same rules refuse it, with the path inside the edit.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from bigfleet.document.edits.draft import Draft
from bigfleet.document.edits.selectors import MachineSelector, read_machine_selector
from bigfleet.document.errors import DocumentError, quoted
from bigfleet.document.fields import REQUIRED, Fields, Form
from bigfleet.document.machines import MACHINE, MachineReader, machine_object
from bigfleet.model.machine import HOST_REQUIRED, HostRef, Machine, MachineState, Shape
from bigfleet.model.profile import ZONE_KEY

Raw = Mapping[str, object]

MAX_ADDED = 1_000_000
PROVIDER = "what-if"
"""Of hosts that exist on paper only."""

SHAPE_FIELDS = (
    "instance_type",
    "zone",
    "capacity_type",
    "resources",
    "allocatable",
    "labels",
    "price_per_hour",
    "interruption_probability",
)
"""What a machine shares with others that are like it; the rest is its own story."""

PATCH: Form = {name: default for name, default in MACHINE.items() if name != "id"}

ADD_MACHINES: Form = {"edit": REQUIRED, "count": 1, "like": "", "id_prefix": "added-", "machine": {}}
REMOVE_MACHINES: Form = {"edit": REQUIRED, "where": REQUIRED, "count": None}
LOSE_ZONE: Form = {"edit": REQUIRED, "zone": REQUIRED}
LOSE_PROVIDER: Form = {"edit": REQUIRED, "provider": REQUIRED}
CHANGE_MACHINES: Form = {
    "edit": REQUIRED,
    "where": REQUIRED,
    "count": None,
    "to": {},
    "multiply_price": None,
}


@dataclass(frozen=True, slots=True)
class AddMachines:
    """A number of new machines, like one that exists or described in full."""

    count: int
    like: str
    id_prefix: str
    machine: Raw

    def apply(self, draft: Draft) -> None:
        """Put them into the draft under ids of their own."""
        first = self._first(draft)
        for machine_id in self._ids(draft):
            host = first.host
            if host.provider == PROVIDER:
                host = HostRef(PROVIDER, machine_id)
            draft.machines[machine_id] = replace(first, id=machine_id, host=host)

    def _first(self, draft: Draft) -> Machine:
        raw: dict[str, object] = {"state": MachineState.SPECULATIVE.label}
        if self.like:
            raw |= self._template(draft)
        raw = patched(raw, self.machine)
        needs_host = raw["state"] in {state.label for state in HOST_REQUIRED}
        if needs_host and "host" not in self.machine:
            raw["host"] = {"provider": PROVIDER, "ref": "new"}
        if raw["state"] == MachineState.IDLE.label and "idle_since" not in self.machine:
            raw["idle_since"] = draft.now
        return _read({**raw, "id": "new"}, "machine")

    def _template(self, draft: Draft) -> dict[str, object]:
        like = draft.machines.get(self.like)
        if like is None:
            of_type = (
                machine
                for _, machine in sorted(draft.machines.items())
                if machine.shape.instance_type == self.like
            )
            like = next(of_type, None)
        if like is None:
            raise DocumentError("like", quoted(self.like), "the id or the instance type of a machine")
        return {name: value for name, value in machine_object(like).items() if name in SHAPE_FIELDS}

    def _ids(self, draft: Draft) -> list[str]:
        ids: list[str] = []
        number = 0
        while len(ids) < self.count:
            machine_id = f"{self.id_prefix}{number:04d}"
            number += 1
            if machine_id not in draft.machines:
                ids.append(machine_id)
        return ids


@dataclass(frozen=True, slots=True)
class RemoveMachines:
    """Machines that are gone, slots that cannot be bought any more included."""

    where: MachineSelector
    count: int | None

    def apply(self, draft: Draft) -> None:
        """Take them out of the draft; with a count, the first by id."""
        for machine in self.where.of(draft)[: self.count]:
            del draft.machines[machine.id]


@dataclass(frozen=True, slots=True)
class LoseZone:
    """A zone with everything in it."""

    zone: str

    def apply(self, draft: Draft) -> None:
        """Take its machines out of the draft."""
        gone = [key for key, machine in draft.machines.items() if machine.label(ZONE_KEY) == self.zone]
        if not gone:
            raise DocumentError("zone", quoted(self.zone), "a zone that has a machine")
        for machine_id in gone:
            del draft.machines[machine_id]


@dataclass(frozen=True, slots=True)
class LoseProvider:
    """A provider with every host it runs; a machine that is not bought yet names no provider and stays."""

    provider: str

    def apply(self, draft: Draft) -> None:
        """Take its machines out of the draft."""
        gone = [key for key, machine in draft.machines.items() if machine.host.provider == self.provider]
        if not gone:
            raise DocumentError("provider", quoted(self.provider), "a provider that has a host")
        for machine_id in gone:
            del draft.machines[machine_id]


@dataclass(frozen=True, slots=True)
class ChangeMachines:
    """Machines that become different: dearer, riskier, elsewhere, in another state."""

    where: MachineSelector
    count: int | None
    to: Raw
    multiply_price: float | None

    def apply(self, draft: Draft) -> None:
        """Put the changed records in their places."""
        reader = MachineReader()
        only_shape = all(name in SHAPE_FIELDS for name in self.to)
        shapes: dict[int, Shape] = {}  # by identity: shapes are shared, and comparing them costs more
        for machine in self.where.of(draft)[: self.count]:
            known = shapes.get(id(machine.shape)) if only_shape else None
            if known is None:
                changed = self._changed(machine, reader)
                shapes[id(machine.shape)] = changed.shape
            else:
                changed = replace(machine, shape=known)
            draft.machines[machine.id] = changed

    def _changed(self, machine: Machine, reader: MachineReader) -> Machine:
        raw = patched(machine_object(machine), self.to)
        if self.multiply_price is not None:
            raw["price_per_hour"] = machine.shape.price_per_hour * self.multiply_price
        made = _read(raw, "to", reader)
        return replace(made, metadata=machine.metadata)


def patched(raw: Raw, patch: Raw) -> dict[str, object]:
    """A record with some fields replaced; labels are added, and new resources displace an old allocatable."""
    made = {**raw, **patch}
    old, new = raw.get("labels"), patch.get("labels")
    if isinstance(old, dict) and isinstance(new, dict):
        made["labels"] = {**old, **new}
    if "resources" in patch and "allocatable" not in patch:
        made.pop("allocatable", None)
    return made


def _read(raw: Raw, under: str, reader: MachineReader | None = None) -> Machine:
    try:
        return (reader or MachineReader()).read(Fields(dict(raw), MACHINE))
    except DocumentError as error:
        raise error.under(under) from None


def read_add_machines(raw: Raw, fields: Fields) -> AddMachines:
    """Read `add_machines`; what the machine is like is judged once the draft is known."""
    fields.part("machine", PATCH)
    like = fields.text("like")
    if not like and "machine" not in raw:
        raise DocumentError(
            "like", "nothing", "the id or instance type of a machine, unless machine is given"
        )
    return AddMachines(
        fields.integer("count", (1, MAX_ADDED)), like, fields.text("id_prefix"), fields.mapping("machine")
    )


def read_remove_machines(raw: Raw, fields: Fields) -> RemoveMachines:
    """Read `remove_machines`."""
    return RemoveMachines(_where(raw), _count(raw, fields))


def read_lose_zone(_raw: Raw, fields: Fields) -> LoseZone:
    """Read `lose_zone`."""
    return LoseZone(fields.name("zone"))


def read_lose_provider(_raw: Raw, fields: Fields) -> LoseProvider:
    """Read `lose_provider`."""
    return LoseProvider(fields.name("provider"))


def read_change_machines(raw: Raw, fields: Fields) -> ChangeMachines:
    """Read `change_machines`."""
    fields.part("to", PATCH)
    factor = None
    if "multiply_price" in raw:
        factor = fields.number("multiply_price", low=0, allowed="a finite number that is not negative")
        if "price_per_hour" in fields.mapping("to"):
            raise DocumentError("multiply_price", str(factor), "either it or to.price_per_hour")
    elif not fields.mapping("to"):
        raise DocumentError("to", "nothing", "a field to change, or multiply_price")
    return ChangeMachines(_where(raw), _count(raw, fields), fields.mapping("to"), factor)


def _where(raw: Raw) -> MachineSelector:
    if "where" not in raw:
        raise DocumentError("where", "nothing", "an object")
    try:
        return read_machine_selector(raw["where"])
    except DocumentError as error:
        raise error.under("where") from None


def _count(raw: Raw, fields: Fields) -> int | None:
    return fields.integer("count", (1, MAX_ADDED)) if "count" in raw else None
