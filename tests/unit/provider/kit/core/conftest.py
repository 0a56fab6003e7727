"""A provider state with one machine per machine state, each with earlier operations."""

from collections.abc import Callable

import pytest

from bigfleet.model.machine import MachineState as S
from bigfleet.provider.contract import OperationKind
from bigfleet.provider.kit.core.changes import Operations
from bigfleet.provider.kit.core.state import KINDS, ProviderState
from bigfleet.provider.kit.core.values import MachineRecord
from bigfleet.provider.kit.encoding import RecordCodec
from tests.support.builders import shape

HOSTLESS = (S.SPECULATIVE, S.CREATING)
BOUND = (S.CONFIGURING, S.CONFIGURED, S.DRAINING)

MakeBook = Callable[..., ProviderState]


def machine(state: S, machine_id: str = "m") -> MachineRecord:
    return MachineRecord(
        id=machine_id,
        state=state,
        shape=shape(),
        host="" if state in HOSTLESS else "h",
        cluster="c" if state in BOUND else "",
        shard_metadata={"k": "v"} if state in BOUND else {},
        last_error="broke" if state is S.FAILED else "",
    )


@pytest.fixture
def state_with() -> MakeBook:
    """Make a book with one machine `m` in a state, after operations of these kinds."""

    def make(state: S, *past: OperationKind) -> ProviderState:
        provider_state = ProviderState(RecordCodec("acme"), incarnation="store")
        numbers = [KINDS.index(kind) + 101 if kind in past else 0 for kind in KINDS]
        operations: Operations = (numbers[0], numbers[1], numbers[2], numbers[3])
        provider_state.load(provider_state.put(machine(state), shape(), operations))
        provider_state.opened(1000)
        return provider_state

    return make
