"""What a listener reports about its connections, and to whom.

Why: listeners know what happens, metrics and logs belong to the process; neither floor may know the other.
Must never: do anything by itself.
Rules: `packaging#connection-limits`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class RefusedFor(StrEnum):
    """Why a listener ended a connection that had not proven itself."""

    ADDRESS = "address"
    FULL = "full"


class Listener(StrEnum):
    """The kinds of listeners, as metrics and logs name them."""

    GRPC = "grpc"
    RAFT = "raft"
    HTTP = "http"


@dataclass(frozen=True, slots=True)
class ConnectionReport:
    """What a process wants to know of its listeners, for metrics and logs; called on any thread, must not block."""

    on_refused: Callable[[Listener, RefusedFor, str], object] = lambda _listener, _reason, _address: None
    on_shortage: Callable[[Listener, OSError], object] = lambda _listener, _error: None
    """The system gave no descriptor or memory for a connection."""
    on_open: Callable[[Listener, int, int], object] = lambda _listener, _open, _limit: None
    """How many connections are open, and how many may be."""


NO_REPORT: Final = ConnectionReport()
