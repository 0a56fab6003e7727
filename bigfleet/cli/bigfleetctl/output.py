"""Output of `bigfleetctl`: tables with times and ages for people, wire names and numbers for programs.

Must never: print two JSON objects, or an age for a missing time.
Rules: `coordinator#bigfleetctl`, `packaging#bigfleetctl`.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.output import Column, Listing, OutputRecord, write
from bigfleet.cli.framework.settings import OutputFlags

_MACHINE_FORMS: Final = ("json", "yaml")


def for_programs(settings: OutputFlags) -> bool:
    """Return whether the output is for a program."""
    return settings.output in _MACHINE_FORMS


def listing(
    console: Console,
    settings: OutputFlags,
    *,
    name: str,
    columns: tuple[Column, ...],
    wire: Sequence[Mapping[str, object]],
    shown: Sequence[Mapping[str, object]],
) -> None:
    """Print rows: `wire` for programs, `shown` for people."""
    write(console, settings, Listing(name, columns, wire if for_programs(settings) else shown))


def done(console: Console, settings: OutputFlags, text: str, wire: Mapping[str, object]) -> None:
    """Print the result of a change: one line for people, one object for programs."""
    if for_programs(settings):
        write(console, settings, OutputRecord(wire))
    else:
        console.print(text)


def age(unix_ns: int, now: datetime, age_ns: int = 0) -> str | None:
    """Return how long ago a time is, in one unit of at least two; None for the zero time.

    `age_ns` is the age as the leader measured it; a leader of an older release gives none, and its clock is believed.
    """
    if not unix_ns:
        return None
    seconds = max(0, int(age_ns / 1e9 if age_ns else now.timestamp() - unix_ns / 1e9))
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"
