"""Hypothesis strategies for the nouns of the model: shapes, assignments, machines that could exist.

Why: laws are checked on records of every state, with labels few enough to collide and odd enough to hurt.
"""

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.machine import (
    CLUSTER_REQUIRED,
    HOST_REQUIRED,
    NO_HOST,
    TRANSITIONS,
    Assignment,
    CapacityType,
    HostRef,
    Machine,
    MachineState,
    Shape,
)
from bigfleet.wire.machines import oversold

QUANTITIES = st.sampled_from(["1", "4", "500m", "16Gi", "0", "1e3", "0.25"])
# Without control characters, which the boundary refuses in names.
_CHARACTERS = st.characters(exclude_categories=["Cc", "Cs"])
TEXTS = st.text(_CHARACTERS, max_size=5)
NOT_EMPTY = st.text(_CHARACTERS, min_size=1, max_size=5)
LABELS = st.dictionaries(st.sampled_from(["rack", "gen", "host", "é"]), TEXTS, max_size=3).map(FrozenMap)
RESOURCES = st.dictionaries(st.sampled_from(["cpu", "memory", "gpu"]), QUANTITIES, max_size=3).map(FrozenMap)
DOLLARS = st.sampled_from([0.0, 0.5, 1.0, 8192.0, 1048576.0, float("inf")])


def _not_oversold(shape: Shape) -> Shape:
    """Give pods no more of anything than the machine has."""
    if oversold(shape) is None:
        return shape
    return replace(shape, allocatable=FrozenMap({**shape.allocatable, **shape.resources}))


SHAPES: SearchStrategy[Shape] = st.builds(
    Shape,
    instance_type=st.sampled_from(["", "m5", "a3"]),
    zone=st.sampled_from(["", "za", "zb"]),
    capacity_type=st.sampled_from(CapacityType),
    price_per_hour=st.sampled_from([0.0, 0.1, 1.0, 31.5]),
    interruption_probability=st.sampled_from([0.0, 0.05, 1.0]),
    resources=RESOURCES,
    allocatable=RESOURCES,
    labels=LABELS,
).map(_not_oversold)

ASSIGNMENTS: SearchStrategy[Assignment] = st.builds(
    Assignment,
    priority=st.integers(-(2**31), 2**31 - 1),
    interruption_penalty=DOLLARS,
    reclamation_penalty=DOLLARS,
    fingerprint=TEXTS,
    group=TEXTS,
)


@st.composite
def machines(draw: st.DrawFn, ids: SearchStrategy[str] = NOT_EMPTY) -> Machine:
    """A machine that breaks no invariant."""
    state = draw(st.sampled_from([*TRANSITIONS]))
    may_have_host = state in HOST_REQUIRED or state is MachineState.FAILED
    may_have_cluster = state in CLUSTER_REQUIRED or state in (MachineState.FAILED, MachineState.IDLE)
    host = draw(st.builds(HostRef, TEXTS, NOT_EMPTY)) if may_have_host else NO_HOST
    if state is MachineState.FAILED and draw(st.booleans()):
        host = NO_HOST
    cluster = draw(st.sampled_from(["a", "b", "ü"])) if may_have_cluster else ""
    if state not in CLUSTER_REQUIRED and draw(st.booleans()):
        cluster = ""
    return Machine(
        id=draw(ids),
        state=state,
        shape=draw(SHAPES),
        host=host,
        cluster=cluster,
        assigned=draw(ASSIGNMENTS),
        last_error=draw(NOT_EMPTY) if state is MachineState.FAILED else draw(st.sampled_from(["", "odd"])),
    )
