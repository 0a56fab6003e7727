"""The story of a machine as one strip over time (`dashboard#explain-machine`)."""

import re

import pytest

from bigfleet.dashboard.pages.explain import _transitions

NOW = 1_800_000_000.0


def row(ago: float, before: str, after: str, cause: str = "action") -> dict[str, object]:
    return {"atUnixNanos": round((NOW - ago) * 1e9), "before": before, "after": after, "cause": cause}


@pytest.mark.rule("dashboard#explain-machine", "dashboard#wording")
def test_states_are_as_wide_as_they_lasted_and_the_last_lasts_until_now() -> None:
    rows = [
        row(100, "Idle", "Configured"),
        row(400, "Configuring", "Idle", "reconcile"),
        row(1000, "", "Configuring"),
    ]
    markup = str(_transitions(rows, NOW))
    widths = [float(width) for width in re.findall(r'<rect [^>]*width="([0-9.]+)"', markup)]
    assert [round(width / sum(widths), 1) for width in widths] == [0.6, 0.3, 0.1]
    words = re.findall(r"<title>([^<]*)</title>", markup)
    assert words == [
        "Configuring for 10 min, by an action of the shard",
        "Idle for 5 min, seen when the provider was listed",
        "Configured for 100 s, by an action of the shard",
    ]
    assert "reconcile" not in markup


def test_a_state_of_a_second_can_still_be_seen() -> None:
    markup = str(_transitions([row(86_400, "Draining", "Idle"), row(86_401, "", "Draining")], NOW))
    widths = [float(width) for width in re.findall(r'<rect [^>]*width="([0-9.]+)"', markup)]
    assert min(widths) > 5
    assert _transitions([], NOW) is None
