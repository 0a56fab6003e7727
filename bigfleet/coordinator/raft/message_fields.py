"""The fields of the library's messages, with the types that a replica sends.

Why: the library checks none. A term that is no number goes into its metadata, an entry out of order into its journal, and a text in
place of an index makes every later tick of a leader fail.
Must never: judge what a field says; that is the message guard's.
Rules: `coordinator#message-filter`.
"""

from collections.abc import Callable, Mapping
from typing import Any

_MOST = 1 << 62
"""No log gets that far; the journal has 64 bits for an index or term."""


def has_fields(message: Mapping[str, Any]) -> bool:
    """Whether a message of a known type has the fields of its type, each as a replica sends it."""
    required = _REQUIRED[message["type"]]
    if not all(name in message and fits(message[name]) for name, fits in required.items()):
        return False
    if not all(fits(message[name]) for name, fits in _OPTIONAL.items() if name in message):
        return False
    return "prevLogIdx" not in message or _continues(message)


def _continues(message: Mapping[str, Any]) -> bool:
    """Whether the entries follow the one that the message names, and each other."""
    previous, entries = message["prevLogIdx"], message.get("entries", ())
    return (
        _is_number(previous)
        and _is_number(message.get("prevLogTerm"))
        and isinstance(entries, list | tuple)
        and all(_is_entry(entry, previous + 1 + place) for place, entry in enumerate(entries))
    )


def _is_entry(value: object, index: int) -> bool:
    """Command, index and term."""
    return (
        isinstance(value, list | tuple)
        and len(value) == 3
        and isinstance(value[0], bytes)
        and _is_number(value[1])
        and value[1] == index
        and _is_number(value[2])
    )


def _is_number(value: object) -> bool:
    return type(value) is int and 0 <= value < _MOST  # a bool is an int too


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_chunk(value: object) -> bool:
    """Bytes of a snapshot, whether they are its first, whether they are its last; nothing where the sender had none to send."""
    if value is None or value is False:
        return True
    return isinstance(value, tuple) and [type(part) for part in value] == [bytes, bool, bool]


def _is_place(value: object) -> bool:
    """Index and term, or nothing."""
    return value is None or (isinstance(value, tuple) and len(value) == 2 and all(map(_is_number, value)))


def _is_learner(value: object) -> bool:
    """Its id, target and applied index, or nothing."""
    if value is None:
        return True
    return (
        isinstance(value, tuple)
        and len(value) == 3
        and isinstance(value[0], str)
        and all(map(_is_number, value[1:]))
    )


_Check = Callable[[object], bool]
_REQUIRED: Mapping[str, Mapping[str, _Check]] = {
    "append_entries": {"term": _is_number, "commit_index": _is_number},
    "next_node_idx": {"next_node_idx": _is_number, "reset": _is_flag, "success": _is_flag},
    "request_vote": {"term": _is_number, "last_log_index": _is_number, "last_log_term": _is_number},
    "response_vote": {"term": _is_number},
    "timeout_now": {"term": _is_number},
}
_OPTIONAL: Mapping[str, _Check] = {
    "serialized": _is_chunk,
    "bf_snapshot": _is_place,
    "bf_learner": _is_learner,
}
VOTER_TYPES = frozenset(_REQUIRED)
