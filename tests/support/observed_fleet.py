"""A virtual fleet whose shard a test can observe: machines, metrics, log and audit."""

import json
from typing import Any

from bigfleet.demo.virtual_fleet import AUDIT, VirtualFleet
from bigfleet.model.machine import Machine, MachineState


class ObservedFleet(VirtualFleet):
    """A shard on virtual time, with everything that it shows outside."""

    def machine(self, machine_id: str) -> Machine:
        """The shard's record of a machine."""
        return self.shard.inventory.get(machine_id)

    def state(self, machine_id: str) -> MachineState | None:
        """The state of a machine in the shard's inventory."""
        return self.shard.inventory.state_of(machine_id)

    def real(self, machine_id: str) -> MachineState:
        """The state of a machine at the provider."""
        found = self.fake.kit.machine(machine_id)
        if found is None:
            raise LookupError(f"the fake has no machine {machine_id}")
        return found.state

    def metric(self, name: str, **labels: str) -> float:
        """The value of one series of the shard."""
        family = self.run.registry.restricted_registry([name])  # collecting all of them is slow
        samples = (sample for metric in family.collect() for sample in metric.samples)
        return next((each.value for each in samples if (each.name, each.labels) == (name, labels)), 0.0)

    def lines(self, event: str = "") -> list[dict[str, Any]]:
        """The log lines of this run of the shard, of one event or all."""
        found = [json.loads(line) for line in self.run.log.getvalue().splitlines()]
        return [line for line in found if event in ("", line["event"])]

    def audit(self) -> list[dict[str, Any]]:
        """The audit records."""
        return [json.loads(line) for line in self.run.process.disk.read(AUDIT).decode().splitlines()]

    async def pass_time(self, seconds: float) -> None:
        """Let virtual time pass."""
        await self.clock.sleep(seconds)
