"""Tables for people, JSON and YAML for programs."""

import json
from datetime import UTC, datetime, timedelta, timezone
from io import StringIO

import pytest
import yaml

from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.output import (
    Column,
    Listing,
    OutputRecord,
    cell,
    colour_wanted,
    rfc3339,
    table,
    write,
)
from bigfleet.cli.framework.settings import OutputFlags
from bigfleet.cli.framework.tree import CliProgram

SEEN = datetime(2026, 11, 16, 13, 30, 5, 250_000, tzinfo=timezone(timedelta(hours=1)))
NEVER = datetime(1, 1, 1, tzinfo=UTC)
SHARDS = Listing(
    "shards",
    (Column("SHARD", "id"), Column("LAST_HEARTBEAT", "last_heartbeat"), Column("AGE", "age", wide=True)),
    (
        {"id": "shard-0", "last_heartbeat": SEEN, "age": 3},
        {"id": "s1", "last_heartbeat": NEVER, "age": None},
    ),
)


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def console(stdout: StringIO, **environ: str) -> Console:
    return Console(CliProgram("p", "", ()), stdout, StringIO(), environ, lambda: SEEN)


def written(content: Listing | OutputRecord, settings: OutputFlags, stdout: StringIO | None = None) -> str:
    target = stdout or StringIO()
    write(console(target), settings, content)
    return target.getvalue()


def test_columns_are_two_spaces_apart_and_a_zero_time_is_an_em_dash() -> None:
    assert written(SHARDS, OutputFlags()) == (
        "SHARD    LAST_HEARTBEAT\nshard-0  2026-11-16T12:30:05Z\ns1       —\n"
    )


def test_wide_adds_the_further_columns() -> None:
    assert written(SHARDS, OutputFlags(output="wide")).splitlines()[0] == "SHARD    LAST_HEARTBEAT        AGE"


@pytest.mark.rule("packaging#output")
def test_an_empty_listing_prints_its_header() -> None:
    assert written(Listing("shards", SHARDS.columns, ()), OutputFlags()) == "SHARD  LAST_HEARTBEAT\n"


def test_json_and_yaml_are_one_object_of_the_same_content() -> None:
    parsed = json.loads(written(SHARDS, OutputFlags(output="json")))
    assert parsed == yaml.safe_load(written(SHARDS, OutputFlags(output="yaml")))
    assert parsed["shards"][0] == {"id": "shard-0", "last_heartbeat": "2026-11-16T12:30:05.250000Z", "age": 3}
    assert parsed["shards"][1]["last_heartbeat"] is None


def test_a_record_is_one_line_per_field() -> None:
    assert (
        written(OutputRecord({"id": "a", "names": ("x", "y"), "ca": False}), OutputFlags())
        == "id:     a\nnames:  x,y\nca:     false\n"
    )


def test_a_terminal_gets_a_bold_header() -> None:
    assert written(SHARDS, OutputFlags(), Terminal()).startswith("\x1b[1mSHARD")


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_json_and_yaml_are_never_coloured(output: str) -> None:
    assert "\x1b" not in written(SHARDS, OutputFlags(output=output), Terminal())  # type: ignore[arg-type]  # a choice


def test_colour_is_off_when_piped_refused_or_impossible() -> None:
    assert colour_wanted(console(Terminal()), no_color=False)
    assert not colour_wanted(console(StringIO()), no_color=False)
    assert not colour_wanted(console(Terminal()), no_color=True)
    assert not colour_wanted(console(Terminal(), NO_COLOR="1"), no_color=False)
    assert not colour_wanted(console(Terminal(), TERM="dumb"), no_color=False)
    assert colour_wanted(console(Terminal(), NO_COLOR=""), no_color=False)


def test_the_epoch_is_a_zero_time_too() -> None:
    assert cell(datetime.fromtimestamp(0, UTC)) == "—"


def test_a_time_without_a_zone_is_a_defect() -> None:
    with pytest.raises(ValueError, match="without a zone"):
        rfc3339(datetime(2026, 1, 1))  # noqa: DTZ001  the case under test


def test_a_table_has_no_trailing_blanks() -> None:
    assert all(line == line.rstrip() for line in table(SHARDS, wide=True).splitlines())
