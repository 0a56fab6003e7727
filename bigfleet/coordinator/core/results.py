"""Results of commands. A refusal is a value: an exception in the replicated apply stops every replica for good
(`coordinator#apply-is-total`, `coordinator#group-commit`).

Rules: `coordinator#commands`.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

Result = dict[str, Any]  # Any: JSON


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
    """The command was refused; `owner` names the shard that holds what was asked for."""

    refusal: RefusalCode
    detail: str
    owner: str = ""

    def result(self) -> Result:
        """Return the JSON of the refusal."""
        owner = {"owner": self.owner} if self.owner else {}
        return {"ok": False, "refusal": self.refusal.value, "detail": self.detail, **owner}


@dataclass(frozen=True, slots=True)
class CommandDone:
    """The command took effect, now or before; `seq` is the number of a move begun or returned."""

    seq: int | None = None

    def result(self) -> Result:
        """Return the JSON of the success."""
        return {"ok": True} if self.seq is None else {"ok": True, "seq": self.seq}


DONE = CommandDone()
CommandOutcome = CommandDone | CommandRefused
