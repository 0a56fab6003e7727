"""Results of commands: what was done, or why it was refused. A refusal is a value, never an exception.

Why: a command that raises inside the replicated apply would stop every replica for good (coordinator 17.3).
Rules: coordinator 2.2.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

Result = dict[str, Any]  # Any: what JSON can say; it travels as text


class RefusalCode(StrEnum):
    """Why a command was refused."""

    INVALID = "invalid"
    STALE_EPOCH = "stale_epoch"
    SHARD_EXISTS = "shard_exists"
    SHARD_NOT_FOUND = "shard_not_found"
    CLUSTER_ALREADY_BOUND = "cluster_already_bound"
    DOMAIN_ALREADY_ASSIGNED = "domain_already_assigned"
    MOVE_CONFLICT = "move_conflict"
    MOVE_STALE = "move_stale"
    LEDGER_FULL = "ledger_full"
    LEVEL_TOO_LOW = "level_too_low"
    LEVEL_UNKNOWN = "level_unknown"
    DEFECT = "defect"


@dataclass(frozen=True, slots=True)
class CommandRefused:
    """A refusal with its cause in words; `owner` names the shard that is in the way."""

    refusal: RefusalCode
    detail: str
    owner: str = ""

    def result(self) -> Result:
        """The refusal as it travels."""
        owner = {"owner": self.owner} if self.owner else {}
        return {"ok": False, "refusal": self.refusal.value, "detail": self.detail, **owner}


@dataclass(frozen=True, slots=True)
class CommandDone:
    """The command took effect, or had taken effect before; `seq` is the number of a move begun or returned."""

    seq: int | None = None

    def result(self) -> Result:
        """The success as it travels."""
        return {"ok": True} if self.seq is None else {"ok": True, "seq": self.seq}


DONE = CommandDone()
CommandOutcome = CommandDone | CommandRefused
