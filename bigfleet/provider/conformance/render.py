"""A report as text, JSON, JUnit XML, badge and page.

Must never: load anything from elsewhere into the page, or trust a text that came from the provider.
Rules: `providers#failure-report`.
"""

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from html import escape
from typing import Final

from bigfleet.provider.conformance.report import (
    BehaviourResult,
    BehaviourStatus,
    ConformanceReport,
    RunVerdict,
)

FILES: Final = ("report.json", "junit.xml", "badge.json", "report.html")

_MARKS: Final[Mapping[BehaviourStatus, str]] = {
    BehaviourStatus.PASSED: "ok  ",
    BehaviourStatus.FAILED: "FAIL",
    BehaviourStatus.SKIPPED: "skip",
    BehaviourStatus.NOT_APPLICABLE: "n/a ",
    BehaviourStatus.NO_MACHINE: "none",
    BehaviourStatus.NOT_RUN: "----",
}
_COLOURS: Final = {
    RunVerdict.CERTIFIED: "brightgreen",
    RunVerdict.FAILED: "red",
    RunVerdict.INCOMPLETE: "orange",
}
_NOT_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def live_line(result: BehaviourResult) -> str:
    """Return the one line that is printed as soon as a behaviour has ended."""
    behaviour = result.behaviour
    line = f"{_MARKS[result.status]}  {behaviour.id:<6} {result.seconds * 1000:>7.0f} ms  {behaviour.meaning}"
    texts = [result.message] if result.message else []
    return "".join([line, *(f"\n      {text}" for text in (*texts, *result.notes))])


def failure_text(result: BehaviourResult) -> str:
    """Return what the author of a provider needs: the claim, the calls, the command that repeats it."""
    lines = [
        f"{result.behaviour.title}: {result.behaviour.meaning}",
        f"  {result.message}",
        "  calls:",
        *(f"    {number:>3}. {call}" for number, call in enumerate(result.calls, start=1)),
        f"  repeat: {result.repeat}",
    ]
    return "\n".join(lines)


def summary(report: ConformanceReport) -> str:
    """Return the end of the text report: failures in full, score, verdict and what else is to be known."""
    parts = [failure_text(result) for result in report.results if result.status is BehaviourStatus.FAILED]
    counts = ", ".join(f"{number} {status}" for status, number in report.counts.items() if number)
    parts.append(
        f"{report.score} ({counts}) in {report.seconds:.1f} s, seed {report.seed}, run {report.run_id}"
    )
    parts += [f"note: {note}" for note in report.notes]
    if report.leftovers:
        parts.append("left behind:\n" + "\n".join(f"  {line}" for line in report.leftovers))
    reasons = f" ({'; '.join(report.reasons)})" if report.reasons else ""
    parts.append(f"{report.verdict}: {report.target} as {', '.join(report.profiles)}{reasons}")
    return "\n\n".join(parts)


def as_json(report: ConformanceReport) -> str:
    """Return everything, for programs."""
    document = {
        "target": report.target,
        "run_id": report.run_id,
        "seed": report.seed,
        "profiles": list(report.profiles),
        "verdict": report.verdict,
        "reasons": list(report.reasons),
        "score": report.score,
        "counts": dict(report.counts),
        "seconds": round(report.seconds, 3),
        "notes": list(report.notes),
        "leftovers": list(report.leftovers),
        "results": [_result(result) for result in report.results],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def as_junit(report: ConformanceReport) -> str:
    """Return the results as JUnit XML, a test case per behaviour."""
    counts = report.counts
    untested = len(report.results) - counts[BehaviourStatus.PASSED] - counts[BehaviourStatus.FAILED]
    suite = ET.Element(
        "testsuite",
        name="bigfleet.conformance",
        tests=str(len(report.results)),
        failures=str(counts[BehaviourStatus.FAILED]),
        skipped=str(untested),
        time=f"{report.seconds:.3f}",
    )
    for result in report.results:
        case = ET.SubElement(
            suite,
            "testcase",
            classname=f"conformance.{result.behaviour.lane.value}",
            name=_xml(f"{result.behaviour.title}: {result.behaviour.meaning}"),
            time=f"{result.seconds:.3f}",
        )
        if result.status is BehaviourStatus.FAILED:
            failure = ET.SubElement(case, "failure", message=_xml(result.message))
            failure.text = _xml(failure_text(result))
        elif result.status is not BehaviourStatus.PASSED:
            ET.SubElement(case, "skipped", message=_xml(f"{result.status}: {result.message}"))
    ET.indent(suite)
    return f"<?xml version='1.0' encoding='utf-8'?>\n{ET.tostring(suite, encoding='unicode')}\n"


def as_badge(report: ConformanceReport) -> str:
    """Return the verdict in the form that badge services read."""
    badge = {
        "schemaVersion": 1,
        "label": "BigFleet conformance",
        "message": f"{report.verdict} {', '.join(report.profiles)}",
        "color": _COLOURS[report.verdict],
    }
    return json.dumps(badge, indent=2) + "\n"


def as_page(report: ConformanceReport) -> str:
    """Return the report as one page that needs nothing else."""
    rows = "\n".join(_row(result) for result in report.results)
    texts = "".join(
        f"<li>{escape(text)}</li>" for text in (*report.reasons, *report.notes, *report.leftovers)
    )
    colour = {"brightgreen": "#176f2c", "red": "#b00020", "orange": "#9a5b00"}[_COLOURS[report.verdict]]
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Conformance of {escape(report.target)}</title>
<style>
body {{ font-family: system-ui, sans-serif; margin: 2rem; max-width: 70rem; }}
h1 span {{ color: {colour}; }}
table {{ border-collapse: collapse; width: 100%; }}
td, th {{ border-bottom: 1px solid #ccc; padding: .3rem .6rem; text-align: left; vertical-align: top; }}
tr.failed td:nth-child(2) {{ color: #b00020; font-weight: bold; }}
pre {{ white-space: pre-wrap; background: #f4f4f4; padding: .6rem; }}
</style></head><body>
<h1><span>{report.verdict}</span> {escape(report.target)}</h1>
<p>{escape(report.score)} as {escape(", ".join(report.profiles))}, seed {report.seed}, {report.seconds:.1f} s.</p>
<ul>{texts}</ul>
<table><thead><tr><th>Behaviour</th><th>Result</th><th>Meaning</th></tr></thead><tbody>
{rows}
</tbody></table></body></html>
"""


def all_files(report: ConformanceReport) -> dict[str, str]:
    """Return the content of every file of `--out`, by name."""
    makers = (as_json, as_junit, as_badge, as_page)
    return {name: make(report) for name, make in zip(FILES, makers, strict=True)}


def _result(result: BehaviourResult) -> dict[str, object]:
    return {
        "id": result.behaviour.id,
        "name": result.behaviour.name,
        "meaning": result.behaviour.meaning,
        "counts_for": result.behaviour.counts_for,
        "status": result.status,
        "ms": round(result.seconds * 1000, 1),
        "message": result.message,
        "notes": list(result.notes),
        "calls": list(result.calls),
        "repeat": result.repeat,
    }


def _row(result: BehaviourResult) -> str:
    texts = "".join(f"<br>{escape(text)}" for text in (result.message, *result.notes) if text)
    if result.status is BehaviourStatus.FAILED:
        texts += f"<pre>{escape(failure_text(result))}</pre>"
    state = result.status.replace(" ", "-")
    cells = (escape(result.behaviour.title), result.status, f"{escape(result.behaviour.meaning)}{texts}")
    return f'<tr class="{state}">{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'


def _xml(text: str) -> str:
    """Drop what XML cannot carry; a provider's words may hold anything."""
    return _NOT_XML.sub("\ufffd", text)
