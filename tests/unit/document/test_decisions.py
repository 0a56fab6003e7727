"""Decisions as documents (`engine#snapshot-decision`, `engine#snapshot-parked`)."""

import json
import os
import subprocess
import sys
from pathlib import Path

from bigfleet.document.decisions import decision_document, write_decision
from bigfleet.document.snapshot import read_situation
from bigfleet.model.action import Action, ActionKind
from bigfleet.model.decision import (
    Decision,
    DomainCoverage,
    MatchingSupply,
    Reason,
    Unresolved,
    Verdict,
)
from bigfleet.model.machine import MachineState
from bigfleet.model.need import Need
from bigfleet.model.profile import Profile
from bigfleet.model.situation import Situation
from tests.support.builders import amounts, machine

ROOT = Path(__file__).resolve().parents[3]
SITUATION = Situation(
    now=0,
    machines=(machine("i"), machine("c", MachineState.CONFIGURED), machine("d", MachineState.CONFIGURED)),
)
NEED = Need("x", Profile(priority=9), total=amounts(gpu=24, cpu="500m"), group="g")
DECISION = Decision(
    actions=(
        Action(ActionKind.BOOTSTRAP, "i", "x", "f", "", 0),
        Action(ActionKind.PREEMPT, "c", "batch", need=1, grace_s=30, preemptor_priority=9),
        Action(ActionKind.RECLAIM, "d", "gone", grace_s=600, preemptor_priority=0),
        Action(ActionKind.DELETE, "i2", "", grace_s=0),
    ),
    verdicts=(
        Verdict(Need("a", Profile()), (1,), claimed=("i",), bootstrapped=("i",)),
        Verdict(
            NEED,
            (2, 0),
            deficit=amounts(gpu="8", cpu=0),
            domain="za",
            parked=True,
            reason=Reason.TOPOLOGY_UNSATISFIABLE,
            matching_supply=MatchingSupply(256, 0, 2),
            same_candidates=(DomainCoverage("za", 666, False),),
        ),
    ),
    unresolved=(Unresolved(1, amounts(gpu=8), 1, amounts(memory="32Gi")),),
)


def test_a_decision_is_written_field_by_field() -> None:
    assert decision_document(SITUATION, DECISION) == {
        "version": 1,
        "actions": [
            {
                "kind": "Bootstrap", "machine": "i", "cluster": "x", "fingerprint": "f", "group": "", "need": 0,
                "grace_seconds": None, "preemptor_priority": None, "reason": "phase1.idle",
            },
            {
                "kind": "Preempt", "machine": "c", "cluster": "batch", "fingerprint": None, "group": None, "need": 1,
                "grace_seconds": 30, "preemptor_priority": 9, "reason": "phase2.inversion",
            },
            {
                "kind": "Reclaim", "machine": "d", "cluster": "gone", "fingerprint": None, "group": None, "need": None,
                "grace_seconds": 600, "preemptor_priority": 0, "reason": "phase3.excess",
            },
            {
                "kind": "Delete", "machine": "i2", "cluster": None, "fingerprint": None, "group": None, "need": None,
                "grace_seconds": 0, "preemptor_priority": None, "reason": "phase3.release",
            },
        ],
        "needs": [
            {
                "cluster": "a", "group": "", "fingerprint": "p=0|ipb=1|rpb=1|reqs=|spr=", "priority": 0,
                "folded_from": [1], "satisfied": True, "total": {}, "deficit": {}, "claimed": ["i"],
                "bootstrapped": ["i"], "provisioned": [], "domain": None, "structurally_satisfiable": False,
                "parked": False, "reason": "SATISFIED", "matching_supply": None, "same_candidates": [],
            },
            {
                "cluster": "x", "group": "g", "fingerprint": "p=9|ipb=1|rpb=1|reqs=|spr=", "priority": 9,
                "folded_from": [0, 2], "satisfied": False, "total": {"cpu": "0.5", "gpu": "24"},
                "deficit": {"gpu": "8"}, "claimed": [], "bootstrapped": [], "provisioned": [], "domain": "za",
                "structurally_satisfiable": False, "parked": True, "reason": "TOPOLOGY_UNSATISFIABLE",
                "matching_supply": {"idle": 256, "speculative": 0, "configured": 2, "capped": True},
                "same_candidates": [{"domain": "za", "coverage_per_mille": 666, "satisfiable": False}],
            },
        ],
        "unresolved": [{"need": 1, "deficit": {"gpu": "8"}, "victims": 1, "freed": {"memory": "34359738368"}}],
        "counts": {
            "machines": {
                "Speculative": 0, "Creating": 0, "Idle": 1, "Configuring": 0, "Configured": 2, "Draining": 0,
                "Deleting": 0, "Failed": 0,
            },
            "actions": {"Bootstrap": 1, "Provision": 0, "Preempt": 1, "Reclaim": 1, "Delete": 1},
        },
    }  # fmt: skip


def test_names_stand_in_the_order_of_the_contract() -> None:
    whole = json.loads(write_decision(SITUATION, DECISION))
    assert [*whole] == ["version", "actions", "needs", "unresolved", "counts"]
    action = "kind machine cluster fingerprint group need grace_seconds preemptor_priority reason"
    assert [*whole["actions"][0]] == action.split()
    verdict = (
        "cluster group fingerprint priority folded_from satisfied total deficit claimed bootstrapped provisioned "
        "domain structurally_satisfiable parked reason matching_supply same_candidates"
    )
    assert [*whole["needs"][0]] == verdict.split()
    assert [*whole["unresolved"][0]] == ["need", "deficit", "victims", "freed"]


def test_folded_needs_are_named_by_their_places_in_the_document() -> None:
    document = read_situation(
        json.dumps(
            {
                "version": 1,
                "now": 0,
                "machines": [],
                "sort_needs": True,
                "needs": [
                    {"cluster": "low"},
                    {"cluster": "mid", "priority": 5},
                    {"cluster": "top", "priority": 9},
                ],
            }
        )
    )
    top, mid, low = document.situation.needs
    decision = Decision((), (Verdict(top, (0,)), Verdict(low, (1, 2))), ())
    whole = decision_document(document.situation, decision, document.places)
    assert [verdict["folded_from"] for verdict in whole["needs"]] == [[2], [0, 1]]  # type: ignore[attr-defined]
    assert mid.cluster == "mid"


def test_a_decision_is_one_line_and_always_the_same_bytes() -> None:
    written = write_decision(SITUATION, DECISION)
    assert written.endswith(b"}\n")
    assert written.count(b"\n") == 1
    assert json.loads(written) == decision_document(SITUATION, DECISION)
    program = (
        "import sys, runpy; test = runpy.run_path(sys.argv[1]);"
        "sys.stdout.buffer.write(test['write_decision'](test['SITUATION'], test['DECISION']))"
    )
    for seed in ("0", "99"):
        done = subprocess.run(
            [sys.executable, "-c", program, __file__],
            check=True,
            capture_output=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            timeout=60,
        )
        assert done.stdout == written
