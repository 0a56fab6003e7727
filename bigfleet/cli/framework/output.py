"""Output of commands: tables for people, JSON and YAML for programs.

Why: all listings use the same form, so that a script for one can read the others.
Must never: colour JSON, YAML, or anything that is not a terminal; print a local time.
Rules: `packaging#bigfleetctl`, `coordinator#bigfleetctl`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from json import dumps

from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.settings import OutputFlags
from bigfleet.document.listing import Column, Listing
from bigfleet.model.times import rfc3339_of

# Column and Listing are exported here too, so that a command imports its output from one module.
__all__ = [
    "ALERT",
    "EM_DASH",
    "Column",
    "Listing",
    "OutputRecord",
    "cell",
    "colour_wanted",
    "is_zero_time",
    "rfc3339",
    "table",
    "table_text",
    "time_of",
    "write",
    "yaml_text",
]

EM_DASH = "—"
ALERT = "alert"
"""The key of rows that are shown in colour because something is wrong with them."""
_BOLD, _RED, _PLAIN = "\x1b[1m", "\x1b[31m", "\x1b[0m"
_EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class OutputRecord:
    """One object: a table with one line per field, or one JSON object."""

    fields: Mapping[str, object]


def write(console: Console, settings: OutputFlags, content: Listing | OutputRecord) -> None:
    """Print a listing or a record in the form that the flags choose."""
    if settings.output == "json":
        console.print(dumps(_document(content), indent=2, ensure_ascii=False))
    elif settings.output == "yaml":
        console.stdout.write(yaml_text(_document(content)))
    elif isinstance(content, OutputRecord):
        console.stdout.write(_record_table(content))
    else:
        console.stdout.write(table_text(console, settings, content))


def yaml_text(document: object) -> str:
    """Return a document as YAML, its keys in their own order."""
    import yaml

    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)


def table_text(console: Console, settings: OutputFlags, listing: Listing) -> str:
    """Return a listing as a table in the width and colour that the flags ask for."""
    colour = colour_wanted(console, no_color=settings.no_color)
    return table(listing, wide=settings.output == "wide", colour=colour)


def colour_wanted(console: Console, *, no_color: bool) -> bool:
    """Return whether standard output is a terminal and no setting forbids colour."""
    refused = no_color or bool(console.environ.get("NO_COLOR")) or console.environ.get("TERM") == "dumb"
    return not refused and console.stdout.isatty()


def table(listing: Listing, *, wide: bool = False, colour: bool = False) -> str:
    """Return a listing as a table with two spaces between columns; without rows only the header."""
    columns = [column for column in listing.columns if wide or not column.wide]
    header = [column.title for column in columns]
    lines = [[cell(row.get(column.key)) for column in columns] for row in listing.rows]
    widths = [max(len(line[i]) for line in [header, *lines]) for i in range(len(columns))]
    padded = [
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in [header, *lines]
    ]
    if colour:
        padded[0] = f"{_BOLD}{padded[0]}{_PLAIN}"
        for place, row in enumerate(listing.rows, start=1):
            if row.get(ALERT):
                padded[place] = f"{_RED}{padded[place]}{_PLAIN}"
    return "\n".join(padded) + "\n"


def cell(value: object) -> str:
    """Return a value as table text; None and the zero time are an em dash."""
    if isinstance(value, datetime):
        return EM_DASH if is_zero_time(value) else rfc3339(value.replace(microsecond=0))
    if value is None:
        return EM_DASH
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(map(cell, value)) or EM_DASH
    return str(value)


def is_zero_time(moment: datetime) -> bool:
    """Return whether a time means never: year 1, as in Go, or the epoch, as in protobuf."""
    return moment.year == 1 or moment == _EPOCH


def time_of(unix_ns: int) -> datetime:
    """Return a time of the wire; 0 is the zero time."""
    return _EPOCH + timedelta(microseconds=unix_ns // 1000)


def rfc3339(moment: datetime) -> str:
    """Return a time as RFC 3339 in UTC; raises ValueError for a time without a zone."""
    if moment.tzinfo is None:
        raise ValueError("a time without a zone cannot be printed")
    return rfc3339_of(moment)


def _record_table(record: OutputRecord) -> str:
    width = max(len(key) for key in record.fields) + 1
    lines = (f"{key + ':':<{width}}  {cell(value)}" for key, value in record.fields.items())
    # A value of several lines begins below its key, without trailing spaces.
    return "".join("\n".join(part.rstrip() for part in line.split("\n")) + "\n" for line in lines)


def _document(content: Listing | OutputRecord) -> object:
    if isinstance(content, OutputRecord):
        return _plain(content.fields)
    return {content.name: [_plain(row) for row in content.rows]}


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return None if is_zero_time(value) else rfc3339(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)
