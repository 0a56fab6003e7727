"""Events about providers and stock (`dashboard#events`)."""

from dataclasses import replace

import pytest

from bigfleet.dashboard.core.fleet_events import FleetEvents
from bigfleet.dashboard.core.observed import (
    FleetPicture,
    ObservedCoolOff,
    ObservedProvider,
    ObservedShard,
    ShardPlace,
)

WELL = ObservedShard("s0", 7, 100.0, 1, provider=ObservedProvider(reachable=True), needs=3, needs_covered=3)
DEAD = replace(WELL, provider=ObservedProvider(reachable=False, last_error="connection refused"))
DOUBTED = replace(WELL, provider=ObservedProvider(reachable=True, doubted_for_s=0.0, doubted_missing=9))
OUT = replace(WELL, cool_offs=(ObservedCoolOff("m5", "zone-a", "Spot", "no capacity", 1, 30.0, 6),))
SHORT = replace(WELL, shortfalls=1, needs_covered=1)


def picture(seen: ObservedShard) -> FleetPicture:
    return FleetPicture(100.0, (ShardPlace("s0", "a:1", 100.0, 100.0, "", seen),), shards_wired=True)


@pytest.mark.rule("dashboard#events")
@pytest.mark.parametrize(
    ("before", "after", "kind", "text"),
    [
        (WELL, DEAD, "provider_lost", "the provider of s0 became unreachable: connection refused"),
        (DEAD, WELL, "provider_back", "the provider of s0 answers again"),
        (WELL, DOUBTED, "listing_doubted", "the provider of s0 lists 9 machines less; that is doubted"),
        (WELL, OUT, "stock_out", "m5 Spot in zone-a is out of stock at s0"),
        (OUT, WELL, "restocked", "m5 Spot in zone-a is ordered again at s0"),
        (WELL, SHORT, "short", "2 needs of s0 short"),
        (SHORT, WELL, "covered", "no need of s0 is short any more"),
    ],
)
def test_a_change_of_provider_or_stock_is_an_event(
    before: ObservedShard, after: ObservedShard, kind: str, text: str
) -> None:
    events = FleetEvents()
    assert events.note(picture(before), picture(after)) == 1
    assert [(event.kind, event.text) for event in events.newest()] == [(kind, text)]
    assert events.note(picture(after), picture(after)) == 0
