"""Resets fence marks in the state directory of a provider that does not run.

Why: a provider whose marks block its only shard may be stopped already, and not every provider program has a socket.
Must never: write to a directory that a running provider has locked, or to one that holds no provider's state.
Rules: `providers#reset-marks`, `providers#durable-state`.
"""

import asyncio
from os import fspath
from pathlib import Path

from bigfleet.aio.clock import NANOSECONDS, Clock
from bigfleet.aio.disk import AnyPath, Disk
from bigfleet.model.errors import BigFleetError, InvalidFieldError
from bigfleet.model.times import rfc3339_of_s
from bigfleet.provider.contract import INT64_MAX, MAX_ID_BYTES
from bigfleet.provider.kit.audit import RepairAuditFile
from bigfleet.provider.kit.core.changes import FenceMark, LowerMarks, ShardEpoch
from bigfleet.provider.kit.core.fence import Fence
from bigfleet.provider.kit.entries import EntryDecoder, encode
from bigfleet.provider.kit.journal import Journal

AUDIT_FILE = "audit.jsonl"


class NoStateError(BigFleetError):
    """The directory holds no state of a provider."""

    def __init__(self, directory: str) -> None:
        super().__init__(f"{directory}: holds no state of a provider")
        self.directory = directory


def checked_reset(shard_id: str, epoch: int) -> LowerMarks:
    """Return the change; `InvalidFieldError` for a shard id or an epoch that no shard can have."""
    if not 0 < len(shard_id.encode()) <= MAX_ID_BYTES:
        raise InvalidFieldError("shard", shard_id[:80], f"the id of a shard, of at most {MAX_ID_BYTES} bytes")
    if not 0 <= epoch <= INT64_MAX:
        raise InvalidFieldError("epoch", epoch, f"0 to {INT64_MAX}")
    return LowerMarks(shard_id, epoch)


async def reset_stored_marks(
    disk: Disk, clock: Clock, directory: AnyPath, change: LowerMarks, who: str
) -> int:
    """Lower the marks of a shard above an epoch, with audit lines in the directory; return how many there were."""
    path = fspath(directory)
    if not disk.exists(path):
        raise NoStateError(path)
    journal = Journal(path, disk=disk, clock=clock)
    audit = RepairAuditFile(disk, Path(path) / AUDIT_FILE)
    line = {"action": "reset-marks", "shard": change.shard_id, "epoch": change.epoch, "who": who}

    def now() -> str:
        return rfc3339_of_s(clock.wall_ns() // NANOSECONDS)

    try:
        fence, found = _read_fence(journal)
        if not found:
            raise NoStateError(path)
        await audit.record({"time": now(), **line, "outcome": "asked"})
        above = fence.count_above(change)
        if above:
            await _append(journal, encode((change,)))
        await audit.record({"time": now(), **line, "lowered": above, "outcome": "done"})
        return above
    finally:
        await journal.close()


def _read_fence(journal: Journal) -> tuple[Fence, bool]:
    """Return the marks on disk, and whether there is any state at all. The machines are not needed and not built."""
    # Every machine is unknown to this fence, so it has to keep as many marks as there are.
    fence, decoder, found = Fence(unknown_kept=INT64_MAX), EntryDecoder(), False
    for entry in journal.open():
        found = True
        for change in decoder.decode(entry):
            if isinstance(change, FenceMark):
                fence.set(change, None)
            elif isinstance(change, ShardEpoch):
                fence.set_epoch(change)
            elif isinstance(change, LowerMarks):
                fence.lower(change)
    return fence, found


async def _append(journal: Journal, entry: bytes) -> None:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def written(problem: BigFleetError | None) -> None:
        if problem is None:
            done.set_result(None)
        else:
            done.set_exception(problem)

    journal.append(entry, written)
    await done
