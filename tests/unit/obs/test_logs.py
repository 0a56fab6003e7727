"""Log lines: form, level, bindings, masking, libraries."""

import json
import logging
import warnings
from datetime import UTC, datetime, timedelta, timezone
from io import StringIO
from typing import Any

import pytest
import structlog
from structlog.typing import FilteringBoundLogger

from bigfleet.obs.logs import Form, Level, build_logger, library_logs, process_logs

NOON = datetime(2026, 11, 16, 13, 0, 0, 5, tzinfo=timezone(timedelta(hours=1)))


def logger(stream: StringIO, *, level: Level = "info", form: Form | None = "json") -> FilteringBoundLogger:
    return build_logger(level=level, form=form, stream=stream, now=lambda: NOON, component="shard", epoch=7)


def lines(stream: StringIO) -> list[dict[str, Any]]:  # Any: values of JSON
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_has_time_in_utc_level_event_and_what_was_bound() -> None:
    stream = StringIO()
    logger(stream).bind(shard="shard-0").warning("rollup_held", cluster="c", rows=3)
    assert lines(stream) == [
        {
            "time": "2026-11-16T12:00:00.000005Z",
            "level": "warning",
            "event": "rollup_held",
            "component": "shard",
            "epoch": 7,
            "shard": "shard-0",
            "cluster": "c",
            "rows": 3,
        }
    ]
    assert list(lines(stream)[0])[:3] == ["time", "level", "event"]


@pytest.mark.parametrize(("level", "written"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_lines_below_the_level_are_not_written(level: Level, written: int) -> None:
    stream = StringIO()
    log = logger(stream, level=level)
    log.debug("a")
    log.info("b")
    log.warning("c")
    log.error("d")
    assert len(lines(stream)) == written


def test_an_exception_is_one_field_of_one_line() -> None:
    stream = StringIO()
    try:
        raise ValueError("bad\nthing")
    except ValueError:
        logger(stream).exception("call_failed")
    (line,) = lines(stream)
    assert "ValueError: bad\nthing" in line["exception"]


def test_without_a_form_it_is_json_unless_the_stream_is_a_terminal() -> None:
    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    pipe, terminal = StringIO(), Terminal()
    logger(pipe, form=None).info("started")
    logger(terminal, form=None).info("started")
    assert lines(pipe)[0]["event"] == "started"
    assert "\x1b[" in terminal.getvalue()


def test_console_lines_to_a_file_have_no_colour() -> None:
    stream = StringIO()
    logger(stream, form="console").info("started", port=7780)
    assert "\x1b" not in stream.getvalue()
    assert "started" in stream.getvalue()
    assert "port=7780" in stream.getvalue()


@pytest.mark.parametrize("form", ["json", "console"])
def test_secrets_do_not_reach_the_line_in_either_form(form: Form) -> None:
    stream = StringIO()
    log = logger(stream, form=form).bind(raft_secret="hunter2")
    request = {"machine": "m-1", "bootstrap_blob": "hunter2", "nested": [{"apiToken": "hunter2"}]}
    log.info(
        "configure",
        request=request,
        tls_key="hunter2",
        password="hunter2",
        blob=b"hunter2",
        url="http://u:hunter2@h/",
    )
    assert "hunter2" not in stream.getvalue()
    assert "m-1" in stream.getvalue()


def test_lines_of_libraries_and_warnings_come_through_the_same_logger() -> None:
    stream = StringIO()
    log = logger(stream)
    with library_logs(log, "info"):
        logging.getLogger("grpc._channel").warning("connection %s", "lost")
        logging.getLogger("asyncio").debug("too fine")
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("old call", UserWarning, stacklevel=1)
    first, second = lines(stream)
    assert (first["event"], first["library"], first["message"]) == (
        "library",
        "grpc._channel",
        "connection lost",
    )
    assert (first["component"], first["level"]) == ("shard", "warning")
    assert "old call" in second["message"]


def test_a_library_s_exception_is_one_field_too() -> None:
    stream = StringIO()
    with library_logs(logger(stream), "info"):
        try:
            raise OSError("no route")
        except OSError:
            logging.getLogger("x").exception("dial failed")
    (line,) = lines(stream)
    assert "OSError: no route" in line["exception"]


def test_the_standard_logging_is_left_as_it_was_found() -> None:
    root = logging.getLogger()
    before = (root.handlers[:], root.level)
    with library_logs(logger(StringIO()), "error"):
        assert root.level == logging.ERROR
    assert (root.handlers, root.level) == before


def test_a_clock_in_any_zone_is_written_in_utc() -> None:
    stream = StringIO()
    log = build_logger(
        level="info", form="json", stream=stream, now=lambda: NOON.astimezone(UTC), component="x"
    )
    log.info("tick")
    assert lines(stream)[0]["time"] == "2026-11-16T12:00:00.000005Z"


def test_a_logger_that_a_room_made_before_belongs_to_the_process_while_it_runs() -> None:
    early = structlog.get_logger("bigfleet.transport")
    stream = StringIO()
    with process_logs(level="info", form="json", stream=stream, now=lambda: NOON, component="shard") as log:
        early.warning("tls_reload_failed", tls_key="hunter2", component="transport")
        structlog.get_logger().debug("too fine")
        log.info("started")
        logging.getLogger("grpc").error("gone")
    assert [(line["event"], line["component"]) for line in lines(stream)] == [
        ("tls_reload_failed", "transport"),
        ("started", "shard"),
        ("library", "shard"),
    ]
    assert "hunter2" not in stream.getvalue()


def test_the_configuration_of_structlog_is_left_as_it_was_found() -> None:
    assert not structlog.is_configured()
    with process_logs(level="info", form="json", stream=StringIO(), now=lambda: NOON):
        assert structlog.is_configured()
    assert not structlog.is_configured()
