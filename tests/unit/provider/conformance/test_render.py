"""Reports can be read by people, programs and browsers, whatever a provider says."""

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable

import pytest

from bigfleet.provider.conformance import render
from bigfleet.provider.conformance.catalogue import find
from bigfleet.provider.conformance.reference.model import ReferenceProvider
from bigfleet.provider.conformance.reference.values import ReferenceOptions
from bigfleet.provider.conformance.report import (
    BehaviourResult,
    BehaviourStatus,
    ConformanceReport,
    RunVerdict,
)
from tests.support.conformance.table import VIOLATIONS

HOSTILE = "<script>alert('x')</script> \x00\x1b & \ud7ff"


def report(*results: BehaviourResult, verdict: RunVerdict = RunVerdict.FAILED) -> ConformanceReport:
    return ConformanceReport(
        target="127.0.0.1:9000",
        run_id="r",
        seed=1,
        profiles=("core",),
        verdict=verdict,
        reasons=("required and failed: B303",),
        results=results,
        notes=("a note",),
        leftovers=("m-1: FAILED",),
        seconds=1.5,
    )


FAILURE = BehaviourResult(
    find("B303"),
    BehaviourStatus.FAILED,
    0.01,
    HOSTILE,
    ("noted",),
    (f"Create 'm' -> {HOSTILE}",),
    (),
    "bigfleet …",
)
MIXED = report(
    FAILURE,
    BehaviourResult(find("A01"), BehaviourStatus.PASSED, 0.2),
    BehaviourResult(find("A05"), BehaviourStatus.SKIPPED, message="Delete is not offered"),
)


def test_json_has_id_status_time_message_and_calls() -> None:
    document = json.loads(render.as_json(MIXED))
    assert document["verdict"] == "FAILED"
    assert document["counts"]["passed"] == 1
    first = document["results"][0]
    assert (first["id"], first["status"], first["ms"], first["message"]) == ("B303", "failed", 10.0, HOSTILE)
    assert first["calls"] == list(FAILURE.calls)


def test_junit_is_xml_whatever_the_provider_said() -> None:
    suite = ET.fromstring(render.as_junit(MIXED).encode("utf-8"))  # noqa: S314  made by ourselves a moment ago
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    assert [case.find("failure") is not None for case in suite] == [True, False, False]
    assert suite[2].find("skipped") is not None


def test_the_page_shows_a_providers_words_as_words() -> None:
    page = render.as_page(MIXED)
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "http" not in page.replace("https://", "http")  # nothing is loaded from elsewhere


@pytest.mark.parametrize(
    ("verdict", "colour"),
    [(RunVerdict.CERTIFIED, "brightgreen"), (RunVerdict.FAILED, "red"), (RunVerdict.INCOMPLETE, "orange")],
)
def test_the_badge_says_the_verdict(verdict: RunVerdict, colour: str) -> None:
    badge = json.loads(render.as_badge(report(verdict=verdict)))
    assert badge == {
        "schemaVersion": 1,
        "label": "BigFleet conformance",
        "message": f"{verdict} core",
        "color": colour,
    }


def test_every_file_of_a_report_is_made() -> None:
    assert tuple(render.all_files(MIXED)) == ("report.json", "junit.xml", "badge.json", "report.html")


def test_the_summary_tells_failures_score_and_verdict() -> None:
    text = render.summary(MIXED)
    assert "1 of 2 passed" in text
    assert text.endswith("FAILED: 127.0.0.1:9000 as core (required and failed: B303)")
    assert "left behind:\n  m-1: FAILED" in text


@pytest.mark.rule("providers#failure-report")
def test_a_failure_prints_calls_tokens_codes_and_the_command_that_repeats_it(
    on_model: Callable[..., ConformanceReport],
) -> None:
    broken: type[ReferenceProvider] = next(v.model for v in VIOLATIONS if v.name == "zero-sequence-stale")
    found = on_model(ReferenceOptions(), broken, only=("B303",))
    text = render.failure_text(found.result("B303"))
    assert "token (3, 0): found FAILED_PRECONDITION: the token is stale, due was OK" in text
    assert "Create 'slot-00001', token (conformance-unit-b303-a, 2, 5) -> OK, operation 'op-" in text
    assert "token (conformance-unit-b303-a, 3, 0) -> FAILED_PRECONDITION: the token is stale" in text
    assert f"repeat: bigfleet conformance --target {found.target} --seed 1 --only B303 --yes" in text


def test_a_live_line_has_mark_id_time_and_meaning() -> None:
    line = render.live_line(BehaviourResult(find("A06"), BehaviourStatus.PASSED, 0.012, notes=("remark",)))
    assert line == "ok    A06         12 ms  A machine that does not exist is not found.\n      remark"
