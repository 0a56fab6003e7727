"""Decides what a provider's record changes in the inventory: adopt it, dispute it, or ignore it.

Why: the provider owns the machines, but a listing lags behind our own calls, and a state change that no transition
explains is more often a stale record than the truth.
Must never: merge fields of an unchanged state, or let an assignment outlive its binding.
Rules: `shard#applying-a-record`, `shard#disputed-states`, `shard#reported-failure`; ADR-0059, ADR-0069.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from bigfleet.model.machine import CLUSTER_REQUIRED, TRANSITIONS, UNASSIGNED, Machine, MachineState

ADOPTED_AT = 3
"""Identical reports in a row after which a state change that no transition explains is adopted."""

_LOST_FROM = frozenset({MachineState.CONFIGURED, MachineState.IDLE})
_ENDS = {
    MachineState.CREATING: MachineState.IDLE,
    MachineState.CONFIGURING: MachineState.CONFIGURED,
    MachineState.DRAINING: MachineState.IDLE,
}
IN_TRANSITION = frozenset(_ENDS)
"""States that are polled for between ticks; somebody waits for what comes after them."""


@dataclass(frozen=True, slots=True)
class RecordChange:
    """What to write; an `adopted` record follows no transition."""

    machine: Machine
    adopted: bool = False


@dataclass(frozen=True, slots=True)
class _Report:
    state: MachineState
    cluster: str
    times: int


class Disputes:
    """Machines whose reported state no transition explains, and how often in a row each was reported so."""

    def __init__(self) -> None:
        self._seen: dict[str, _Report] = {}

    def __len__(self) -> int:
        return len(self._seen)

    def __contains__(self, machine_id: str) -> bool:
        return machine_id in self._seen

    @property
    def machine_ids(self) -> tuple[str, ...]:
        """The disputed machines by id; incremental mode gets them again (`shard#disputed-states`)."""
        return tuple(sorted(self._seen))

    def reported(self, reported: Machine) -> int:
        """Count a report; returns the number of identical ones in a row, this one included."""
        last = self._seen.get(reported.id)
        same = last is not None and (last.state, last.cluster) == (reported.state, reported.cluster)
        times = last.times + 1 if last is not None and same else 1
        self._seen[reported.id] = _Report(reported.state, reported.cluster, times)
        return times

    def settle(self, machine_id: str) -> None:
        """End the dispute about a machine."""
        self._seen.pop(machine_id, None)

    def settle_all_but(self, machine_ids: Iterable[str]) -> None:
        """After a full listing: end all disputes except those about these machines."""
        kept = set(machine_ids)
        self._seen = {machine_id: seen for machine_id, seen in self._seen.items() if machine_id in kept}


def is_progress(known: MachineState, reported: MachineState) -> bool:
    """Whether a report is the end of a transition or a loss, which an outdated record of the same machine is not."""
    return _ENDS.get(known) is reported or (
        reported is MachineState.FAILED and (known in _ENDS or known in _LOST_FROM)
    )


def judge(local: Machine, reported: Machine, disputes: Disputes) -> RecordChange | None:
    """What the report of a known machine changes; None for the same state, or for a change not yet adopted."""
    if local.state is reported.state:
        disputes.settle(local.id)
        return None
    after = _merged(local, reported)
    if reported.state in TRANSITIONS[local.state]:
        disputes.settle(local.id)
        return RecordChange(after)
    if reported.state is MachineState.FAILED and local.state in _LOST_FROM:
        disputes.settle(local.id)
        return RecordChange(after, adopted=True)
    if disputes.reported(reported) < ADOPTED_AT:
        return None
    disputes.settle(local.id)
    return RecordChange(after, adopted=True)


def _merged(local: Machine, reported: Machine) -> Machine:
    """The report with its assignment: ours while the machine stays bound to the same cluster."""
    if reported.state not in CLUSTER_REQUIRED:
        return replace(reported, assigned=UNASSIGNED)
    if local.state in CLUSTER_REQUIRED and local.cluster == reported.cluster:
        return replace(reported, assigned=local.assigned)
    return reported  # bound by someone else, or by a call of ours that seemed lost: the metadata has the assignment


def vanished(local: Machine) -> Machine:
    """The final state for the operator of a machine that the provider no longer lists."""
    return replace(
        local, state=MachineState.FAILED, last_error="removed: the provider no longer lists the machine"
    )
