"""The backend of the hook provider: each step of the kit calls one hook.

Must never: decide how often to retry; exit codes and the kit's timeouts do.
Rules: `providers#hook-modes`, `providers#hook-protocol`; ADR-0056.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Final, Protocol

from bigfleet.aio.clock import NANOSECONDS, Clock
from bigfleet.aio.disk import DiskError
from bigfleet.model.errors import BigFleetError
from bigfleet.model.frozen_map import NO_TEXTS
from bigfleet.provider.contract import OperationKind
from bigfleet.provider.hook.core.documents import read_discovered
from bigfleet.provider.hook.core.errors import HookOutputError, InventoryError
from bigfleet.provider.hook.core.exits import HookOutcome
from bigfleet.provider.hook.core.inventory import HookKind, machine_faults
from bigfleet.provider.hook.core.protocol import HookMachine, HookOutput, HookRequest, read_output
from bigfleet.provider.hook.hooks import HookResult, HookRunner
from bigfleet.provider.hook.host_labels import HostLabels
from bigfleet.provider.hook.processes import SpawnError
from bigfleet.provider.hook.sources import InventorySource
from bigfleet.provider.kit.backend import CannotResume, Op, Permanent, ResumeOutcome, StockOut, Transient
from bigfleet.provider.kit.core.values import CreatedHost, DescribedMachine, MachineRecord

READY_TIMEOUT_S: Final = 30.0
DISCOVER_TIMEOUT_S: Final = 60.0


class NodeReadiness(Protocol):
    """Finds the node of a machine in a cluster; the program provides it, as this room does not know Kubernetes."""

    async def node_ready(self, kubeconfig: str, machine_id: str, ref: str) -> bool:
        """Return whether the machine's node is Ready; raise `BigFleetError` if that cannot be determined now."""
        ...


class DiscoverError(BigFleetError):
    """The discover hook failed; the machines it reported before stay."""


class HookBackend:
    """Implements `bigfleet.provider.kit.backend.Backend` with `delete`, `node_ready` and `resume`."""

    def __init__(
        self,
        source: InventorySource,
        hooks: HookRunner,
        *,
        clock: Clock,
        readiness: NodeReadiness | None,
        host_labels: HostLabels,
        on_labels_changed: Callable[[], None],
    ) -> None:
        self._source, self._hooks, self._clock = source, hooks, clock
        self._readiness, self._host_labels, self._on_labels_changed = (
            readiness,
            host_labels,
            on_labels_changed,
        )
        self._killed: dict[str, str] = {}
        """By machine, the operation in which a signal killed a hook; a second time fails the operation."""

    async def describe(self) -> AsyncIterator[DescribedMachine]:
        inventory = self._source.inventory
        entries = inventory.entries
        if inventory.discovers:
            found = read_discovered(await self._discover(), f"output of {inventory.hooks[HookKind.DISCOVER]}")
            faults = machine_faults(inventory, found)
            faults += [
                f"machine {name}: found by the hook and in a file" for name in found if name in entries
            ]
            if faults:
                raise InventoryError(faults)
            self._source.discovered(found)
            entries = inventory.with_machines(found).entries
        for entry in entries.values():
            shape = self._host_labels.applied(entry.id, entry.shape)
            yield inventory.slot(replace(entry, shape=shape))

    async def create(self, machine: MachineRecord, op: Op) -> CreatedHost:
        output = await self._do(HookKind.CREATE, machine, op)
        entry = self._source.entry(machine.id)
        ref = output.ref or (entry.ref if entry else "")
        if not ref:
            raise Permanent("the create hook printed no ref, and the inventory has none")
        if self._host_labels.learn(machine.id, output.labels):
            self._on_labels_changed()
        return CreatedHost(ref, output.resources, output.allocatable)

    async def configure(self, machine: MachineRecord, cluster: str, blob: bytes, op: Op) -> None:
        await self._do(HookKind.CONFIGURE, machine, op, cluster=cluster, blob=blob)

    async def drain(self, machine: MachineRecord, grace: timedelta, op: Op) -> None:
        await self._do(
            HookKind.DRAIN, machine, op, cluster=machine.cluster, grace_s=round(grace.total_seconds())
        )

    async def delete(self, machine: MachineRecord, op: Op) -> None:
        await self._do(HookKind.DELETE, machine, op)
        if self._host_labels.forget(machine.id):
            self._on_labels_changed()

    async def resume(self, machine: MachineRecord, op: Op) -> ResumeOutcome:
        """Call the hook again with the same `operation_id`; configure gets no blob, as blobs are not stored."""
        if not self._source.inventory.resume:
            raise CannotResume("the inventory says resume: false")
        match op.kind:
            case OperationKind.CREATE:
                return ResumeOutcome(await self.create(machine, op))
            case OperationKind.CONFIGURE:
                await self._do(HookKind.CONFIGURE, machine, op, cluster=machine.cluster)
            case OperationKind.DRAIN:
                await self.drain(machine, op.grace, op)
            case OperationKind.DELETE:
                await self.delete(machine, op)
        return ResumeOutcome()

    async def node_ready(self, machine: MachineRecord, cluster: str, op: Op) -> bool:
        inventory = self._source.inventory
        if HookKind.READY in inventory.hooks:
            return await self._ready_by_hook(machine, cluster, op)
        kubeconfig = inventory.clusters.get(cluster)
        if kubeconfig is None:
            return True  # only configure's exit code is known; the start logs a warning
        if self._readiness is None:
            raise Permanent(f"cluster {cluster} has a kubeconfig, but this process cannot look into clusters")
        try:
            return await self._readiness.node_ready(kubeconfig, machine.id, machine.host)
        except BigFleetError as error:
            raise Transient(str(error)) from error

    async def _ready_by_hook(self, machine: MachineRecord, cluster: str, op: Op) -> bool:
        try:
            result = await self._call(HookKind.READY, machine, op, cluster=cluster, timeout_s=READY_TIMEOUT_S)
        except TimeoutError:
            raise Transient(f"the ready hook took more than {READY_TIMEOUT_S:g} s") from None
        match result.outcome:
            case HookOutcome.DONE:
                return True
            case HookOutcome.NOT_YET:
                return False
        self._judge(result, machine, op)
        return False

    async def _do(
        self,
        kind: HookKind,
        machine: MachineRecord,
        op: Op,
        *,
        cluster: str = "",
        grace_s: int = 0,
        blob: bytes | None = None,
    ) -> HookOutput:
        result = await self._call(kind, machine, op, cluster=cluster, grace_s=grace_s, blob=blob)
        self._judge(result, machine, op)
        try:
            output = read_output(result.output)
        except HookOutputError as error:
            raise Permanent(str(error)) from error
        if output.message:
            op.log.info("hook_message", message=output.message)
        return output

    async def _call(
        self,
        kind: HookKind,
        machine: MachineRecord,
        op: Op,
        *,
        cluster: str,
        grace_s: int = 0,
        blob: bytes | None = None,
        timeout_s: float | None = None,
    ) -> HookResult:
        inventory = self._source.inventory
        if kind not in inventory.hooks:
            raise Permanent(f"there is no {kind} hook")
        left_s = op.deadline.timestamp() - self._clock.wall_ns() / NANOSECONDS
        request = HookRequest(
            kind=kind,
            operation_id=op.id,
            subject=self.subject(machine),
            cluster=cluster,
            grace_seconds=grace_s,
            deadline_seconds=max(int(left_s), 0),
            attempt=op.attempt,
        )
        try:
            return await self._hooks.call(inventory, request, blob=blob, timeout_s=timeout_s)
        except SpawnError as error:
            raise Permanent(str(error)) from error
        except DiskError as error:
            raise Transient(f"the blob cannot be written: {error}") from error

    def subject(self, machine: MachineRecord) -> HookMachine:
        """Return a machine as its hooks see it; without a host of its own it has that of the inventory."""
        entry = self._source.entry(machine.id)
        return HookMachine(
            id=machine.id,
            ref=machine.host or (entry.ref if entry else ""),
            shape=machine.shape,
            vars=entry.vars if entry else NO_TEXTS,
        )

    def _judge(self, result: HookResult, machine: MachineRecord, op: Op) -> None:
        """Raise the error that the exit of a hook means, nothing if it succeeded."""
        match result.outcome:
            case HookOutcome.DONE:
                return
            case HookOutcome.AGAIN:
                raise Transient(result.reason)
            case HookOutcome.KILLED if self._killed.get(machine.id) != op.id:
                self._killed[machine.id] = op.id
                raise Transient(result.reason)
            case HookOutcome.STOCK_OUT:
                raise StockOut(result.reason)
            case HookOutcome.MISCONFIGURED:
                raise Permanent(f"configuration error: {result.reason}")
        raise Permanent(result.reason)

    async def _discover(self) -> bytes:
        try:
            result = await self._hooks.call(
                self._source.inventory,
                HookRequest(kind=HookKind.DISCOVER, deadline_seconds=int(DISCOVER_TIMEOUT_S)),
                timeout_s=DISCOVER_TIMEOUT_S,
            )
        except TimeoutError:
            raise DiscoverError(f"the discover hook took more than {DISCOVER_TIMEOUT_S:g} s") from None
        if result.outcome is not HookOutcome.DONE:
            raise DiscoverError(f"the discover hook failed: {result.reason}")
        return result.output
