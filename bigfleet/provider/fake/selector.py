"""Which machines a verb is about.

Why: "all spot machines of zone-a" is one selector, whether they are to fail, to cost more, or only to be shown.
Must never: decode more records than it must; states are looked at in columns first.
Rules: providers 5.2.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bigfleet.model.machine import CapacityType, MachineState
from bigfleet.provider.kit.core.state import ProviderState
from bigfleet.provider.kit.core.values import MachineRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """Machines that are all of this; what is not said does not matter."""

    id: str = ""
    prefix: str = ""
    """How ids begin."""
    states: tuple[MachineState, ...] = ()
    zone: str = ""
    instance_type: str = ""
    capacity_type: CapacityType | None = None
    cluster: str = ""
    limit: int = 0
    """How many at most, in the order in which they came; 0 for all."""

    def machines(self, state: ProviderState) -> Iterator[MachineRecord]:
        """Yield the machines, in the order of the table; not to be continued over a change."""
        found = 0
        for row in self._rows(state):
            if not self._fits(state, row):
                continue
            machine = state.table.machine(row)
            if self.cluster and machine.cluster != self.cluster:
                continue
            yield machine
            found += 1
            if found == self.limit:
                return

    def ids(self, state: ProviderState) -> list[str]:
        """Return their ids."""
        return [machine.id for machine in self.machines(state)]

    def _rows(self, state: ProviderState) -> list[int]:
        if not self.id:
            rows: list[int] = state.table.rows(self.states).tolist()
            return rows
        row = state.table.row(self.id)
        return [row] if row is not None and (not self.states or state.table.state(row) in self.states) else []

    def _fits(self, state: ProviderState, row: int) -> bool:
        shape = state.table.shape(row)
        return (
            self.zone in ("", shape.zone)
            and self.instance_type in ("", shape.instance_type)
            and self.capacity_type in (None, shape.capacity_type)
            and (not self.prefix or state.table.id(row).startswith(self.prefix))
        )
