"""Cuts long texts in log lines, wherever they stand.

Why: names, values and errors come from peers. One tenant with values of 20 MB must not fill the disk of a shard, whichever
line it is that quotes them.
Must never: cut what we wrote ourselves: messages are short, and a traceback keeps its end, which says what failed.
Rules: `packaging#common-flags`, `wire#texts-shown`; ADR-0238.
"""

from collections.abc import Mapping, MutableMapping
from itertools import islice
from typing import Any, Final

from bigfleet.model.errors import cut

TEXT_CHARACTERS: Final = 1_000
TRACEBACK_CHARACTERS: Final = 16_000
ENTRIES: Final = 100
"""Of a list or map in a line."""


def cut_texts(_logger: object, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Cut the texts of a log line, as a structlog processor (whose types are these)."""
    for key, value in line.items():
        if key == "exception" and isinstance(value, str):
            line[key] = value if len(value) <= TRACEBACK_CHARACTERS else f"…{value[-TRACEBACK_CHARACTERS:]}"
        else:
            line[key] = _cut(value)
    return line


def _cut(value: object) -> object:
    if isinstance(value, str):
        return cut(value, TEXT_CHARACTERS)
    if isinstance(value, Mapping):
        return {cut(str(key)): _cut(inner) for key, inner in islice(value.items(), ENTRIES)}
    if isinstance(value, list | tuple):
        kept = [_cut(inner) for inner in value[:ENTRIES]]
        return [*kept, f"… {len(value) - ENTRIES} more"] if len(value) > ENTRIES else kept
    return value
