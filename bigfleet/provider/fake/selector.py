"""Selects the machines of a verb, for example all spot machines of zone-a.

Must never: decode more records than it must; columns are compared first.
Rules: `providers#fake-control`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bigfleet.model.machine import CapacityType, MachineState
from bigfleet.provider.kit.core.state import ProviderState
from bigfleet.provider.kit.core.values import MachineRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """Machines that match all given fields; empty fields match every machine."""

    id: str = ""
    prefix: str = ""
    """Prefix of ids."""
    states: tuple[MachineState, ...] = ()
    zone: str = ""
    instance_type: str = ""
    capacity_type: CapacityType | None = None
    cluster: str = ""
    limit: int = 0
    """Highest number of machines, in table order; 0 for all."""

    def machines(self, state: ProviderState) -> Iterator[MachineRecord]:
        """Yield the machines in table order; invalid after a change."""
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
