"""Runs every hook once as a dry run and reports the results.

Must never: run a hook without BF_DRY_RUN=1, or touch the state of a running provider.
Rules: `providers#hook-check`.
"""

from dataclasses import dataclass
from typing import Final

from bigfleet.model.machine import MachineState
from bigfleet.provider.hook.core.documents import read_discovered
from bigfleet.provider.hook.core.errors import HookOutputError, InventoryError
from bigfleet.provider.hook.core.exits import HookOutcome
from bigfleet.provider.hook.core.inventory import HookInventory, HookKind, InventoryEntry, machine_faults
from bigfleet.provider.hook.core.protocol import HookMachine, HookRequest, read_output
from bigfleet.provider.hook.hooks import HookResult, HookRunner
from bigfleet.provider.hook.processes import SpawnError

TIMEOUT_S: Final = 30.0
BLOB: Final = b"# a dry run, not a bootstrap blob\n"
OPERATION: Final = "dry-run"
CLUSTER: Final = "dry-run"
_BOUND_KINDS: Final = frozenset({HookKind.CONFIGURE, HookKind.READY, HookKind.DRAIN})


@dataclass(frozen=True, slots=True)
class HookTrial:
    """The dry run of one hook."""

    kind: HookKind
    program: str
    machine_id: str
    ok: bool
    result: str
    detail: str


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The dry runs of all hooks, and the machines that the provider would begin with."""

    hooks: tuple[HookTrial, ...]
    machines: int
    first_state: MachineState

    @property
    def ok(self) -> bool:
        return all(tried.ok for tried in self.hooks)


async def check(inventory: HookInventory, hooks: HookRunner) -> CheckReport:
    """Try every hook on the machine with the lowest id, including machines that a discover hook finds."""
    entries = dict(inventory.entries)
    tried: list[HookTrial] = []
    if HookKind.DISCOVER in inventory.hooks:
        row, found = await _discover(inventory, hooks)
        tried.append(row)
        entries |= found
    sample = entries[min(entries)] if entries else None
    others = [kind for kind in HookKind if kind in inventory.hooks and kind is not HookKind.DISCOVER]
    tried += [await _try(inventory, hooks, kind, sample) for kind in others]
    state = inventory.slot(sample).first_state if sample else MachineState.UNSPECIFIED
    return CheckReport(tuple(tried), len(entries), state)


async def _try(
    inventory: HookInventory, hooks: HookRunner, kind: HookKind, entry: InventoryEntry | None
) -> HookTrial:
    if entry is None:
        return HookTrial(
            kind, inventory.hooks[kind], "", False, "not run", "there is no machine to try it on"
        )
    request = HookRequest(
        kind=kind,
        operation_id=OPERATION,
        subject=HookMachine(id=entry.id, ref=entry.ref, shape=entry.shape, vars=entry.vars),
        cluster=CLUSTER if kind in _BOUND_KINDS else "",
        deadline_seconds=int(TIMEOUT_S),
    )
    result = await _call(inventory, hooks, request, BLOB if kind is HookKind.CONFIGURE else None)
    if isinstance(result, str):
        return HookTrial(kind, inventory.hooks[kind], entry.id, False, "not run", result)
    ok, detail = result.outcome in (HookOutcome.DONE, HookOutcome.NOT_YET), result.last_line
    try:
        detail = read_output(result.output).message or detail
    except HookOutputError as error:
        ok, detail = False, str(error)
    return HookTrial(kind, inventory.hooks[kind], entry.id, ok, _result(result), detail)


async def _discover(
    inventory: HookInventory, hooks: HookRunner
) -> tuple[HookTrial, dict[str, InventoryEntry]]:
    kind = HookKind.DISCOVER
    program = inventory.hooks[kind]
    result = await _call(inventory, hooks, HookRequest(kind=kind, deadline_seconds=int(TIMEOUT_S)), None)
    if isinstance(result, str):
        return HookTrial(kind, program, "", False, "not run", result), {}
    if result.outcome is not HookOutcome.DONE:
        return HookTrial(kind, program, "", False, _result(result), result.last_line), {}
    try:
        found = read_discovered(result.output, program)
        faults = machine_faults(inventory, found)
        if faults:
            raise InventoryError(faults)
    except InventoryError as error:
        return HookTrial(kind, program, "", False, _result(result), str(error)), {}
    return HookTrial(kind, program, "", True, _result(result), f"{len(found)} machines"), found


async def _call(
    inventory: HookInventory, hooks: HookRunner, request: HookRequest, blob: bytes | None
) -> HookResult | str:
    try:
        return await hooks.call(inventory, request, blob=blob, timeout_s=TIMEOUT_S)
    except SpawnError as error:
        return str(error)
    except TimeoutError:
        return f"it took more than {TIMEOUT_S:g} s and was ended"


def _result(result: HookResult) -> str:
    return "ok" if result.outcome is HookOutcome.DONE else f"{result.outcome.value} ({result.code})"
