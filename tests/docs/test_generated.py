"""The generated pages are what the code says, and the diagram can be read."""

import re
import xml.etree.ElementTree as ET
from itertools import combinations
from pathlib import Path

import pytest

from bigfleet.app import bigfleet, bigfleetctl
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.framework.surface import entries
from bigfleet.model.machine import TRANSITIONS
from docs.generate import machine_states, pages
from docs.generate.metrics import CATALOGUE

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.rule("packaging#generated-pages")
@pytest.mark.parametrize("name", sorted(pages.GENERATORS))
def test_a_generated_page_has_not_drifted_from_the_code(name: str) -> None:
    # Compared line by line, so that a failure shows the lines; `make docs` mends it.
    written = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert written.splitlines() == pages.GENERATORS[name]().splitlines()


def test_nothing_in_the_reference_is_written_by_hand() -> None:
    assert pages.unknown_pages() == []


def test_a_drifted_page_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(pages.GENERATORS, "reference/exit-codes.md", lambda: "something else\n")
    assert pages.drifted() == [REFERENCE / "exit-codes.md"]


def test_the_metrics_page_names_exactly_the_catalogue() -> None:
    text = (REFERENCE / "metrics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(bigfleet_\w+)` \| (\w+) \|", text, re.MULTILINE)
    assert rows == [(metric.name, metric.type.value) for metric in CATALOGUE]


def test_the_command_page_has_every_command_and_flag() -> None:
    text = (REFERENCE / "cli.md").read_text(encoding="utf-8")
    for program in (bigfleet.PROGRAM, bigfleetctl.PROGRAM):
        for entry in entries(program):
            section = text.split(f"\n### {program.name} {entry.row.name}\n")[1].split("\n### ")[0]
            for option in entry.options:
                assert option.flag in section


def test_the_settings_page_has_every_variable() -> None:
    text = (REFERENCE / "settings.md").read_text(encoding="utf-8")
    for program in (bigfleet.PROGRAM, bigfleetctl.PROGRAM):
        for entry in entries(program):
            for option in entry.options:
                assert all(f"`{variable}`" in text for variable in option.variables)


def test_the_exit_code_page_has_every_code() -> None:
    text = (REFERENCE / "exit-codes.md").read_text(encoding="utf-8")
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)] == [
        int(code) for code in ExitCode
    ]


@pytest.mark.parametrize(("page", "package"), [("wire.md", "v1alpha1"), ("insight.md", "insight")])
def test_the_page_of_a_package_has_every_service_and_message(page: str, package: str) -> None:
    text = (REFERENCE / page).read_text(encoding="utf-8")
    for path in sorted((ROOT / "proto/bigfleet" / package).rglob("*.proto")):
        source = path.read_text(encoding="utf-8")
        for name in re.findall(r"^service (\w+)", source, re.MULTILINE):
            assert f"\n## Service {name}\n" in text
        for name in re.findall(r"^(?:message|enum) (\w+)", source, re.MULTILINE):
            assert f"\n## {name}\n" in text


def test_the_diagram_shows_eight_states_and_thirteen_edges() -> None:
    root = ET.fromstring(machine_states.drawing())  # noqa: S314  made by ourselves a moment ago
    labels = [text.text for text in root.iter(f"{SVG}text")]
    assert sorted(map(str, labels)) == sorted(state.label for state in TRANSITIONS)
    titles = [
        str(line.findtext(f"{SVG}title"))
        for line in root.iter(f"{SVG}path")
        if line.find(f"{SVG}title") is not None
    ]
    pairs = sorted(title.split(":")[0] for title in titles)
    assert pairs == sorted(f"{a.label} to {b.label}" for a, afters in TRANSITIONS.items() for b in afters)
    assert (len(labels), len(pairs)) == (8, 13)


def test_no_arrow_of_the_diagram_runs_through_a_state_and_no_states_overlap() -> None:
    root = ET.fromstring(machine_states.drawing())  # noqa: S314  made by ourselves a moment ago
    boxes = {}
    for group in root.iter(f"{SVG}g"):
        rect, text = group.find(f"{SVG}rect"), group.findtext(f"{SVG}text")
        assert rect is not None
        x, y, width, height = (float(rect.attrib[key]) for key in ("x", "y", "width", "height"))
        boxes[str(text)] = (x, y, x + width, y + height)
    for (_, a), (_, b) in combinations(boxes.items(), 2):
        assert a[2] < b[0] or b[2] < a[0] or a[3] < b[1] or b[3] < a[1]
    width, height = map(float, root.attrib["viewBox"].split()[2:])
    assert all(0 < box[0] < box[2] < width and 0 < box[1] < box[3] < height for box in boxes.values())
    for line in root.iter(f"{SVG}path"):
        title = line.findtext(f"{SVG}title")
        if title is None:
            continue
        ends = title.split(":")[0].split(" to ")
        x1, y1, xm, ym, x2, y2 = (float(number) for number in re.findall(r"-?[\d.]+", line.attrib["d"]))
        for step in range(101):
            t = step / 100
            x = (1 - t) ** 2 * x1 + 2 * t * (1 - t) * xm + t**2 * x2
            y = (1 - t) ** 2 * y1 + 2 * t * (1 - t) * ym + t**2 * y2
            for label, (left, top, right, bottom) in boxes.items():
                if label not in ends:
                    assert not (left <= x <= right and top <= y <= bottom), f"{title} runs through {label}"
