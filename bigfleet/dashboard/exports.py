"""Tables as files: the rows of a page with its filters, as CSV or JSON.

Must never: let a cell begin a formula; spreadsheets run those. A spreadsheet whose separator is a semicolon or a tab begins
a cell after each of them, and some skip blanks and invisible characters before the sign.
Rules: `dashboard#own-routes`, `dashboard#exports`.
"""

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from bigfleet.dashboard.core.visible import visible

TableRow = Mapping[str, Any]  # a JSON object
_FORMULA: Final = re.compile(r"(^|[;\t\n])(\s*)([=+\-@|%\uff1d\uff0b\uff0d\uff20\u2212])")
"""A sign that begins a formula, full-width forms included, at the beginning of a cell."""
TABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "needs": (
        "clusterId",
        "priority",
        "group",
        "aggregateResources",
        "satisfied",
        "unmetReason",
        "residualDeficit",
        "claimedMachineCount",
        "running",
        "joining",
        "onOrder",
        "wanted",
        "missing",
        "heldOff",
        "ageCyclesUnmet",
        "acquisitionParked",
        "profileFingerprint",
    ),
    "machines": (
        "id",
        "state",
        "cluster",
        "instanceType",
        "zone",
        "capacityType",
        "capacity",
        "pricePerHour",
        "interruptionProbability",
        "lastError",
    ),
    "shortfalls": (
        "shardId",
        "priority",
        "priorityClass",
        "deficit",
        "ageCycles",
        "reason",
        "clusters",
        "fingerprint",
    ),
}


def as_csv(table: str, rows: Sequence[TableRow]) -> str:
    """Return rows as CSV with a header."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(TABLES[table])
    writer.writerows([_cell(row[name]) for name in TABLES[table]] for row in rows)
    return text.getvalue()


def as_json(table: str, rows: Sequence[TableRow]) -> str:
    """Return rows as one JSON object, with the columns of the CSV."""
    return json.dumps(
        {table: [{name: row[name] for name in TABLES[table]} for row in rows]}, ensure_ascii=False
    )


def _cell(value: object) -> object:
    if isinstance(value, Mapping):
        value = "; ".join(f"{name}={quantity}" for name, quantity in value.items())
    if isinstance(value, list | tuple):
        value = "; ".join(map(str, value))
    if isinstance(value, bool):
        return "true" if value else "false"
    # An apostrophe makes a text of what follows.
    return _FORMULA.sub(r"\1\2'\3", visible(value)) if isinstance(value, str) else value
