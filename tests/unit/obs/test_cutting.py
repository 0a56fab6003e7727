"""Long texts of peers are cut in every log line (`wire#texts-shown`)."""

import json
from datetime import UTC, datetime
from io import StringIO
from typing import Any

import pytest

from bigfleet.model.errors import InvalidFieldError
from bigfleet.obs.cutting import ENTRIES, TEXT_CHARACTERS, TRACEBACK_CHARACTERS
from bigfleet.obs.logs import build_logger


def logged(**fields: object) -> dict[str, Any]:  # Any: values of JSON
    stream = StringIO()
    log = build_logger(level="info", form="json", stream=stream, now=lambda: datetime(2026, 1, 1, tzinfo=UTC))
    log.info("line", **fields)
    line: dict[str, Any] = json.loads(stream.getvalue())
    return line


@pytest.mark.rule("wire#texts-shown")
def test_a_text_of_a_megabyte_is_cut_wherever_it_stands() -> None:
    long = "x" * (1 << 20)
    line = logged(one=long, many=[long, "short"], named={"a": long, long: 1}, short="short")
    assert line["one"] == f"{'x' * TEXT_CHARACTERS}… ({1 << 20} characters)"
    assert line["many"][1] == line["short"] == "short"
    assert len(json.dumps(line)) < 5 * TEXT_CHARACTERS


@pytest.mark.rule("wire#texts-shown")
def test_of_a_long_list_the_beginning_and_the_count_of_the_rest_are_logged() -> None:
    line = logged(first=[f"p-{number}" for number in range(ENTRIES + 5)])
    assert line["first"][-2:] == [f"p-{ENTRIES - 1}", "… 5 more"]


def test_a_traceback_keeps_its_end() -> None:
    line = logged(exception="line\n" * TRACEBACK_CHARACTERS + "ValueError: this")
    assert line["exception"].endswith("ValueError: this")
    assert len(line["exception"]) == TRACEBACK_CHARACTERS + 1


@pytest.mark.rule("wire#texts-shown")
def test_a_refusal_is_a_short_sentence_whatever_it_is_about() -> None:
    long = "x" * (1 << 20)
    error = InvalidFieldError(f"aggregate_resources[{long}]", long, "a quantity").under("needs[3]")
    assert str(error).startswith("needs[3].aggregate_resources[xxx")
    assert len(str(error)) < 1_000
    assert len(str(error.found)) < 200
