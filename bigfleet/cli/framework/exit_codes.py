"""The exit codes of all programs.

Why: scripts and supervisors branch on them, so they are part of the contract.
Must never: give a number a second meaning.
Rules: `packaging#exit-codes`.
"""

from enum import IntEnum


class ExitCode(IntEnum):
    """One row of the exit-code table; `meaning` is the text of the reference page."""

    meaning: str

    def __new__(cls, number: int, meaning: str) -> "ExitCode":
        member = int.__new__(cls, number)
        member._value_ = number
        member.meaning = meaning
        return member

    DONE = 0, "ended by SIGTERM or SIGINT, or the command did its work"
    FAILURE = 1, "run-time failure; also any component of a process that ended by itself"
    USAGE = 2, "usage: bad or missing flag, bad input, partial TLS set, unknown command or key"
    REFUSED = 3, "refused precondition, or no leader found"
    NOT_FOUND = 4, "not found"
    EXISTS = 5, "already exists"
    PERMISSION = 6, "permission denied"
    UNAVAILABLE = 7, "unavailable, or the outcome is unknown"
    CORRUPT = 8, "corrupt archive or directory"
    DATA_REFUSED = 71, "coordinator: data directory refused"
    IO_ERROR = 74, "coordinator: I/O error on journal or sync"
