"""Which machines could serve a need in its domain if they were free, and which of those already drain for it.

Rules: `engine#phase-2`, `engine#obtainable`; capacity in flight, `engine#preemption-in-flight`.
"""

from collections.abc import Iterable, Mapping, Sequence

from bigfleet.model.decision import Verdict
from bigfleet.model.machine import Machine, MachineState, NeedRef, Shape
from bigfleet.model.matching import matches
from bigfleet.model.need import Need


def is_refused(shape: Shape, need: Need) -> bool:
    """Whether machines of a shape can be interrupted and the need's work must not be (`engine#obtainable`)."""
    return need.profile.refuses_interruptible and shape.interruption_probability > 0


class Usable:
    """Whether a need could use a machine: of a pinned type, in its domain, large enough, matching, and not refused."""

    def __init__(self, verdict: Verdict) -> None:
        self._need = verdict.need
        self._domain, self._key = verdict.domain, verdict.need.profile.same_key
        self._pinned = frozenset(verdict.need.profile.pinned_types)

    def __call__(self, machine: Machine) -> bool:
        shape = machine.shape
        return (
            (not self._pinned or shape.instance_type in self._pinned)
            and (self._key is None or machine.label(self._key) == self._domain)
            and self._need.counted(shape).covers(self._need.unit)
            and matches(machine, self._need.profile)
            and not is_refused(shape, self._need)
        )


def never_preempts(verdict: Verdict) -> bool:
    """Whether a need never preempts: a parked gang, or a gang without a domain."""
    gang = verdict.need.profile.same_key is not None
    return verdict.parked or (gang and verdict.domain is None)


def in_flight(
    machines: Mapping[str, Machine], verdicts: Sequence[Verdict], short: Iterable[int]
) -> dict[str, int]:
    """Machines that drain because of an earlier preemption, each with the place of the short need it counts for."""
    waiting: dict[NeedRef, list[str]] = {}
    for machine_id in sorted(machines):
        machine = machines[machine_id]
        if machine.state is MachineState.DRAINING and machine.draining_for is not None:
            waiting.setdefault(machine.draining_for, []).append(machine_id)
    counted: dict[str, int] = {}
    if not waiting:
        return counted
    for place in sorted(short, key=lambda place: (-verdicts[place].need.profile.priority, place)):
        verdict = verdicts[place]
        if never_preempts(verdict):
            continue
        usable, missing = Usable(verdict), verdict.deficit
        for machine_id in waiting.get(NeedRef(*verdict.need.stamp_key), ()):
            if missing.is_zero:
                break
            machine = machines[machine_id]
            if machine_id not in counted and usable(machine):
                counted[machine_id] = place
                missing -= verdict.need.counted(machine.shape)
    return counted
