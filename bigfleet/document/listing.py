"""Listings: many things of one kind, as a table for reading and as one JSON object for programs.

Why: the command line prints them and pages show them; one description keeps the two alike.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table: its title, and the key of the value in each row."""

    title: str
    key: str
    wide: bool = False  # only with `-o wide`


@dataclass(frozen=True, slots=True)
class Listing:
    """Many things of one kind; as JSON one object, `{name: [row, …]}`."""

    name: str
    columns: tuple[Column, ...]
    rows: Sequence[Mapping[str, object]]
