"""When a replica counts as dead (`coordinator#chart`, `coordinator#probes`, `coordinator#tick-stalled`)."""

from dataclasses import dataclass

import pytest

from bigfleet.app.coordinator.serve import not_alive


@dataclass
class Silent:
    """A log whose thread last ran so long ago."""

    seconds: float

    def tick_age_s(self) -> float:
        return self.seconds


@pytest.mark.rule("coordinator#probes")
@pytest.mark.parametrize(("seconds", "alive"), [(0.0, True), (29.9, True), (30.1, False)])
def test_liveness_fails_once_the_raft_loop_was_silent_for_30_seconds(seconds: float, alive: bool) -> None:
    reasons = not_alive(Silent(seconds))
    assert (reasons == []) == alive
    assert alive or "silent for 30 s" in reasons[0]
