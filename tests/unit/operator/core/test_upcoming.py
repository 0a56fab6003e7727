"""What a node state makes of an UpcomingNode."""

from typing import Any

import pytest

from bigfleet.model.frames import NodeStateUpdate, Taint
from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.machine import MachineState as S
from bigfleet.operator.core.upcoming import Keep, Leave, Remove, Wanted, phase_status, wanted_after
from bigfleet.operator.core.views import UpcomingNodeView

NOW = "2030-01-01T00:00:00Z"
EARLIER = "2029-12-31T00:00:00Z"


def stored(phase: str = "Ready", **status: Any) -> UpcomingNodeView:
    return UpcomingNodeView(
        "un-m", "uid-1", "m", {}, {"phase": phase, "provisioningStartTime": EARLIER, **status}
    )


def after(
    state: S,
    before: UpcomingNodeView | None = None,
    *,
    node_ref: dict[str, Any] | None = None,
    under_reclaim: bool = False,
    **update: Any,
) -> Wanted:
    return wanted_after(
        NodeStateUpdate("m", state, **update),
        before,
        node_ref=node_ref,
        under_reclaim=under_reclaim,
        now=NOW,
    )


def kept(state: S, before: UpcomingNodeView | None = None, **options: Any) -> Keep:
    wanted = after(state, before, **options)
    assert isinstance(wanted, Keep)
    return wanted


@pytest.mark.rule("operator#phases")
@pytest.mark.parametrize(
    ("state", "phase"),
    [
        (S.CREATING, "Provisioning"),
        (S.CONFIGURING, "Registered"),
        (S.CONFIGURED, "Ready"),
        (S.DRAINING, "Draining"),
        (S.FAILED, "Failed"),
    ],
)
def test_a_state_gives_its_phase(state: S, phase: str) -> None:
    assert kept(state).phase == phase
    assert kept(state, stored("Draining")).phase == phase


@pytest.mark.rule("operator#leaving")
@pytest.mark.parametrize(
    ("state", "before", "wanted"),
    [
        pytest.param(S.IDLE, None, Leave(), id="47 Idle without an object creates nothing"),
        pytest.param(S.IDLE, "Draining", Remove("uid-1"), id="46 Idle after Draining deletes"),
        pytest.param(S.IDLE, "Ready", Remove("uid-1"), id="46 Idle with Draining coalesced away deletes"),
        pytest.param(S.IDLE, "Registered", Remove("uid-1"), id="47 a rolled back bootstrap deletes"),
        pytest.param(S.IDLE, "Drained", Remove("uid-1"), id="Idle after Drained deletes"),
        pytest.param(S.IDLE, "Failed", Remove("uid-1"), id="Idle after Failed deletes"),
        pytest.param(S.SPECULATIVE, None, Leave(), id="Speculative without an object"),
        pytest.param(S.SPECULATIVE, "Provisioning", Remove("uid-1"), id="48 Speculative deletes"),
        pytest.param(S.DELETING, "Launched", Remove("uid-1"), id="48 Deleting deletes"),
    ],
)
def test_a_machine_that_is_no_longer_ours(state: S, before: str | None, wanted: Wanted) -> None:
    assert after(state, stored(before) if before else None) == wanted


@pytest.mark.rule("operator#leaving")
@pytest.mark.parametrize("before", ["Provisioning", "Launched", ""])
def test_a_machine_made_for_us_and_not_yet_configured_is_launched(before: str) -> None:
    assert kept(S.IDLE, stored(before)).phase == "Launched"


@pytest.mark.rule("operator#un-spec")
def test_an_empty_shape_has_resources_all_the_same() -> None:
    assert kept(S.CREATING).spec == {"resources": {}}


def test_the_shape_comes_from_the_frame_and_a_bad_amount_costs_only_itself() -> None:
    wanted = kept(
        S.CONFIGURED,
        labels=FrozenMap({"zone": "a"}),
        resources=FrozenMap({"cpu": "8", "bad": "8x"}),
        taints=(Taint("gpu", "", "NoSchedule"), Taint("a", "b", "NoExecute")),
    )
    assert wanted.spec == {
        "labels": {"zone": "a"},
        "resources": {"cpu": "8"},
        "taints": [{"key": "gpu", "effect": "NoSchedule"}, {"key": "a", "value": "b", "effect": "NoExecute"}],
    }


@pytest.mark.rule("operator#un-start-time", "operator#un-last-error")
def test_the_start_time_never_moves_and_the_error_goes_with_the_phase() -> None:
    assert kept(S.CREATING).status["provisioningStartTime"] == NOW
    assert kept(S.CONFIGURED, stored()).status["provisioningStartTime"] == EARLIER
    failed = kept(S.FAILED, stored("Ready"), last_error="boom")
    assert failed.status["lastError"] == "boom"
    assert kept(S.FAILED, stored("Failed", lastError="boom")).status["lastError"] == "boom"
    assert "lastError" not in kept(S.CONFIGURED, stored("Failed", lastError="boom")).status


def test_what_an_empty_field_does_not_contradict_is_kept() -> None:
    before = stored("Ready", providerID="p-1", nodeRef={"name": "n"})
    assert kept(S.DRAINING, before).status["providerID"] == "p-1"
    assert kept(S.DRAINING, before).status["nodeRef"] == {"name": "n"}
    assert kept(S.DRAINING, before, provider_id="p-2").status["providerID"] == "p-2"
    assert kept(S.DRAINING, before, node_ref={"name": "o"}).status["nodeRef"] == {"name": "o"}


@pytest.mark.parametrize("phase", ["Failed", "Drained"])
def test_a_draining_frame_does_not_overwrite_what_our_drain_wrote(phase: str) -> None:
    assert kept(S.DRAINING, stored(phase), under_reclaim=True).phase == phase
    assert kept(S.DRAINING, stored(phase)).phase == "Draining"


def test_a_drain_keeps_the_rest_of_the_status() -> None:
    before = stored("Draining", providerID="p", lastError="old")
    drained = phase_status(before, "Drained", last_error="", now=NOW)
    assert drained == {"phase": "Drained", "providerID": "p", "provisioningStartTime": EARLIER}
    failed = phase_status(before, "Failed", last_error="late", now=NOW)
    assert (failed["phase"], failed["lastError"]) == ("Failed", "late")
