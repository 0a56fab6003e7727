"""The page of decisions: repeats in one row, a filter by outcome, what went wrong (`dashboard#page-decisions`)."""

import re
from typing import Any

import pytest

from bigfleet.dashboard.html import Html
from bigfleet.dashboard.pages.decisions import decisions
from bigfleet.dashboard.pages.frame import Frame

CHOSEN = {"shard": "", "kind": "", "outcome": "", "cluster": "", "machine": ""}


def row(second: int, machine: str = "m-1", outcome: str = "success", error: str = "") -> dict[str, Any]:
    return {
        "shardId": "s", "sequence": second, "atUnixNanos": (1_800_000_000 + second) * 10**9, "kind": "Provision", "machine": machine,
        "cluster": "web", "reason": "phase1.speculative", "outcome": outcome, "error": error, "graceSeconds": 0,
    }  # fmt: skip


def shown(rows: list[dict[str, Any]], **chosen: str) -> Html:
    return decisions(Frame(), ["s"], {"decisions": rows}, {**CHOSEN, **chosen}, "")


def words(markup: str) -> list[str]:
    body = re.findall(r"<tr data-key.*?</tr>|<tr [^>]*data-key.*?</tr>", markup)
    return [re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", row)).strip() for row in body]


@pytest.mark.rule("dashboard#page-decisions")
def test_repeats_are_one_row_with_their_number_and_the_text_of_the_error() -> None:
    failing = [row(n, "m-1", "provider_error", "no capacity in zone-b") for n in (9, 6, 3)]
    found = words(shown([failing[0], row(8, "m-2"), failing[1], failing[2]]))
    assert found == [
        "08:00:09 Provision m-1 web a need wants one more provider_error: no capacity in zone-b , 3 times since 08:00:03 —",
        "08:00:08 Provision m-2 web a need wants one more success —",
    ]


@pytest.mark.rule("dashboard#page-decisions")
def test_a_filter_by_outcome_says_among_how_many_it_looked() -> None:
    rows = [row(3, "m-1", "provider_error"), row(2, "m-2"), row(1, "m-3")]
    failed = shown(rows, outcome="failed")
    assert "1 action among the last 3" in failed
    assert [text.split()[2] for text in words(failed)] == ["m-1"]
    assert [text.split()[2] for text in words(shown(rows, outcome="success"))] == ["m-2", "m-3"]
    assert "No such action" in shown(rows[1:], outcome="failed")
    assert 'href="/clusters/web"' in shown(rows)
