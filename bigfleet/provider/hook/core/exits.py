"""The meaning of a hook's exit code.

Must never: give a code a second meaning; hooks rely on the table.
Rules: `providers#hook-protocol`.
"""

import signal
from enum import Enum

from bigfleet.provider.hook.core.inventory import HookKind

DONE = 0
STOCK_OUT = 69  # EX_UNAVAILABLE of sysexits
TRY_AGAIN = 75  # EX_TEMPFAIL
BAD_CONFIGURATION = 78  # EX_CONFIG
NOT_YET = 100

WAITING_KINDS = frozenset({HookKind.READY, HookKind.PROBE})


class HookOutcome(Enum):
    """How a hook ended."""

    DONE = "done"
    AGAIN = "try again"
    STOCK_OUT = "stock-out"
    MISCONFIGURED = "configuration error"
    NOT_YET = "not yet"
    KILLED = "killed by a signal"
    FAILED = "failed"


_BY_CODE = {
    DONE: HookOutcome.DONE,
    TRY_AGAIN: HookOutcome.AGAIN,
    STOCK_OUT: HookOutcome.STOCK_OUT,
    BAD_CONFIGURATION: HookOutcome.MISCONFIGURED,
}


def outcome_of(kind: HookKind, code: int) -> HookOutcome:
    """Return the outcome of an exit code; a negative code is the signal that killed the hook."""
    if code < 0:
        return HookOutcome.KILLED
    if code == NOT_YET and kind in WAITING_KINDS:
        return HookOutcome.NOT_YET
    return _BY_CODE.get(code, HookOutcome.FAILED)


def describe_exit(code: int) -> str:
    """Return an exit code in words, for a hook that printed no reason."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
