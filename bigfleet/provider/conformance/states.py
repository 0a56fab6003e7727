"""Machine states by the one-letter names that the behaviours use, and their words for reports.

Must never: refuse a number it does not know; a report about a provider that sends one must still be printed.
Rules: `providers#states`, `providers#observation`.
"""

from typing import Final, TypeAlias

from bigfleet.v1alpha1 import provider_pb2 as pb

State: TypeAlias = pb.MachineState.ValueType

S: Final = pb.MACHINE_STATE_SPECULATIVE
CREATING: Final = pb.MACHINE_STATE_CREATING
I: Final = pb.MACHINE_STATE_IDLE  # noqa: E741  the notation of the behaviours
CONFIGURING: Final = pb.MACHINE_STATE_CONFIGURING
C: Final = pb.MACHINE_STATE_CONFIGURED
DRAINING: Final = pb.MACHINE_STATE_DRAINING
DELETING: Final = pb.MACHINE_STATE_DELETING
F: Final = pb.MACHINE_STATE_FAILED

REAL: Final[tuple[State, ...]] = (S, CREATING, I, CONFIGURING, C, DRAINING, DELETING, F)
TRANSITIONAL: Final[tuple[State, ...]] = (CREATING, CONFIGURING, DRAINING, DELETING)
BOUND: Final[tuple[State, ...]] = (CONFIGURING, C, DRAINING)

_PREFIX: Final = "MACHINE_STATE_"


def state_name(number: int) -> str:
    """Return the word for a state, or its number where there is no word."""
    if number not in pb.MachineState.values():
        return f"state {number}"
    return pb.MachineState.Name(pb.MachineState.ValueType(number)).removeprefix(_PREFIX)


def has_host(machine: pb.Machine) -> bool:
    """Return whether a record has a host; one whose fields are both empty counts as none."""
    return bool(machine.host.provider or machine.host.ref)
