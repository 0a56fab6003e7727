"""The machine-state page and its diagram, from the model's transition table.

The layout is fixed by hand, the edges are not: a new state without a place, or an edge without a meaning, fails here.
"""

from bigfleet.model.machine import (
    CLUSTER_FORBIDDEN,
    CLUSTER_REQUIRED,
    HOST_FORBIDDEN,
    HOST_REQUIRED,
    STABLE_STATES,
    TRANSITIONS,
    MachineState,
)
from docs.generate.markdown import page as markdown_page
from docs.generate.markdown import table
from docs.generate.svg import Box, arrow, document, rounded_box

S = MachineState

_PLACES = {
    S.SPECULATIVE: (100, 180),
    S.CREATING: (290, 80),
    S.DELETING: (290, 280),
    S.IDLE: (490, 180),
    S.CONFIGURING: (690, 80),
    S.DRAINING: (690, 280),
    S.CONFIGURED: (880, 180),
    S.FAILED: (490, 390),
}

_MEANINGS = {
    S.SPECULATIVE: "a slot that can be bought; no machine exists",
    S.CREATING: "the provider is obtaining it",
    S.IDLE: "exists and serves no cluster",
    S.CONFIGURING: "is joining a cluster",
    S.CONFIGURED: "serves a cluster",
    S.DRAINING: "is leaving its cluster",
    S.DELETING: "is being given back",
    S.FAILED: "needs a person; carries its last error",
}

_EDGES = {
    (S.SPECULATIVE, S.CREATING): "bought: Create was called",
    (S.CREATING, S.IDLE): "the provider has it",
    (S.CREATING, S.FAILED): "the provider could not obtain it",
    (S.IDLE, S.CONFIGURING): "chosen for a cluster",
    (S.IDLE, S.DELETING): "idle for too long: Delete was called",
    (S.CONFIGURING, S.CONFIGURED): "its node is Ready",
    (S.CONFIGURING, S.FAILED): "Configure failed",
    (S.CONFIGURING, S.IDLE): "rolled back before the provider was asked",
    (S.CONFIGURED, S.DRAINING): "reclaimed or preempted: Drain was called",
    (S.DRAINING, S.IDLE): "empty",
    (S.DRAINING, S.FAILED): "Drain failed",
    (S.DELETING, S.SPECULATIVE): "given back; the slot can be bought again",
    (S.DELETING, S.FAILED): "Delete failed",
}

# A pair of edges between the same two states bends apart, each by so many pixels to the left of its direction.
_BENDS = {(S.IDLE, S.CONFIGURING): 22, (S.CONFIGURING, S.IDLE): 22}


def edges() -> list[tuple[MachineState, MachineState]]:
    """Return every legal transition, in the order of the states."""
    return [(before, after) for before, afters in TRANSITIONS.items() for after in afters]


def page() -> str:
    """Return the page."""
    states = [state for state in MachineState if state is not S.UNSPECIFIED]
    state_rows = [
        (
            state.label,
            "stable" if state in STABLE_STATES else "transitional",
            _rule(state, HOST_REQUIRED, HOST_FORBIDDEN),
            _rule(state, CLUSTER_REQUIRED, CLUSTER_FORBIDDEN),
            _MEANINGS[state],
        )
        for state in states
    ]
    edge_rows = [(before.label, after.label, _EDGES[before, after]) for before, after in edges()]
    return markdown_page(
        "Machine states",
        f"A machine is in one of {len(states)} states and moves only along these {len(edge_rows)} edges; a write that skips a "
        "step is refused. Writes that keep the state are always allowed. What a provider reports against these edges is "
        "adopted by rules of its own, see the [decision record](../adr/0069-provider-reported-failures-adopted.md).",
        f"![{_DESCRIPTION}](machine-states.svg)",
        "## States",
        table(("State", "Kind", "Host", "Cluster", "Meaning"), state_rows),
        "## Transitions",
        table(("From", "To", "When"), edge_rows),
    )


_DESCRIPTION = "The eight machine states and the transitions between them"


def drawing() -> str:
    """Return the diagram."""
    boxes = {state: Box(x, y, state.label) for state, (x, y) in _PLACES.items()}
    parts = [
        arrow(
            boxes[before],
            boxes[after],
            title=f"{before.label} to {after.label}: {_EDGES[before, after]}",
            style="fault" if after is S.FAILED else "step",
            bend=_BENDS.get((before, after), 0),
        )
        for before, after in edges()
    ]
    for state, box in boxes.items():
        style = "failed" if state is S.FAILED else "stable" if state in STABLE_STATES else "passing"
        parts.append(rounded_box(box, style=style, title=_MEANINGS[state]))
    return document(980, 440, _DESCRIPTION, parts)


def _rule(state: MachineState, required: frozenset[MachineState], forbidden: frozenset[MachineState]) -> str:
    if state in required:
        return "required"
    return "none" if state in forbidden else "not checked"
