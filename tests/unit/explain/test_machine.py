"""A machine in every state, and one with every action, is explained (`dashboard#explain-machine`)."""

from typing import Any

import pytest

from bigfleet.document.snapshot import SnapshotDocument
from bigfleet.explain.document import machine_explanation_document
from bigfleet.explain.machine import explain_machine
from bigfleet.explain.redecide import Redecider
from bigfleet.model.action import ActionKind as K
from bigfleet.model.machine import Machine
from bigfleet.model.machine import MachineState as S
from bigfleet.model.need import Need
from bigfleet.model.profile import Profile
from bigfleet.model.situation import Situation
from tests.support.builders import amounts, assigned, machine

STATES = {
    S.SPECULATIVE: "Speculative; to be ordered for need 0 of a.",
    S.CREATING: "Creating; its order names no cluster, so it counts for nobody until it is Idle.",
    S.IDLE: "Idle; to be bootstrapped for need 0 of a.",
    S.CONFIGURING: "Configuring; kept for need 0 of a.",
    S.CONFIGURED: "Configured; kept for need 0 of a.",
    S.DRAINING: "Draining; it counts for nobody until that is done.",
    S.DELETING: "Deleting; it counts for nobody until that is done.",
    S.FAILED: "Failed (it broke); it counts for nobody until the provider repairs or removes it.",
}
# Of each kind a machine and how much its cluster wants, so that this is what becomes of it.
ACTIONS: dict[K, tuple[Machine, int, str]] = {
    K.BOOTSTRAP: (machine("m-1", S.IDLE), 4, "Idle; to be bootstrapped for need 0 of a."),
    K.PROVISION: (machine("m-1", S.SPECULATIVE), 4, "Speculative; to be ordered for need 0 of a."),
    K.PREEMPT: (
        machine("m-1", S.CONFIGURED, cluster="b", assigned=assigned(1)),
        4,
        "Leaves b within 600 s, preempted by need 0 of a.",
    ),
    K.RECLAIM: (
        machine("m-1", S.CONFIGURED, assigned=assigned(5)),
        0,
        "Reclaimed from a: none of its needs wants it any more.",
    ),
    K.DELETE: (
        machine("m-1", S.IDLE, idle_since=-10_000.0),
        0,
        "Given back to the provider: nobody wants it and its hold is over.",
    ),
}


def explained(one: Machine, needs: tuple[Need, ...]) -> dict[str, Any]:
    situation = Situation(0.0, (one,), needs, reported_clusters=frozenset({"a", "b"}))
    document = SnapshotDocument(situation, tuple(range(len(situation.needs))))
    cycle = Redecider().cycle(document)
    return machine_explanation_document(explain_machine(cycle, "m-1"))


@pytest.mark.rule("dashboard#explain-machine")
@pytest.mark.parametrize("state", [state for state in S if state is not S.UNSPECIFIED])
def test_a_machine_in_each_state_is_explained(state: S) -> None:
    content = explained(machine("m-1", state), (Need("a", Profile(priority=5), amounts(cpu=4)),))
    assert (content["state"], content["sentence"]) == (state.label, STATES[state])
    assert content["needs"], "how it fits the needs of highest precedence"


@pytest.mark.rule("dashboard#explain-machine")
@pytest.mark.parametrize("kind", K)
def test_each_kind_of_action_is_explained(kind: K) -> None:
    one, cpu, sentence = ACTIONS[kind]
    low = Need("b", Profile(priority=1), amounts(cpu=4))
    content = explained(one, (Need("a", Profile(priority=5), amounts(cpu=cpu)), low) if cpu else ())
    assert (content["action"]["kind"], content["sentence"]) == (kind.value, sentence)
