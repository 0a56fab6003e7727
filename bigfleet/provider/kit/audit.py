"""Who brought a Failed machine back, when and how: lines that outlive the process.

Why: a repair is the one way out of Failed and rests on a person's word; afterwards somebody will ask whose.
Must never: let a repair take effect that could not be written down first.
Rules: providers 4.1 (human repair), 10.27.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Protocol

from structlog.typing import FilteringBoundLogger

from bigfleet.aio.disk import AnyPath, Disk, OpenMode


class RepairAudit(Protocol):
    """Takes lines that must not be lost."""

    async def record(self, line: Mapping[str, object]) -> None:
        """Return once the line is safe; an error means that it is not."""


class RepairAuditLog:
    """Audit lines among the log lines, where there is no file for them."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        self._log = log

    async def record(self, line: Mapping[str, object]) -> None:
        self._log.warning("audit", **dict(line))


class RepairAuditFile:
    """One JSON object per line, synced before it counts."""

    def __init__(self, disk: Disk, path: AnyPath) -> None:
        self._disk, self._path = disk, path

    async def record(self, line: Mapping[str, object]) -> None:
        await asyncio.to_thread(self._append, json.dumps(dict(line), ensure_ascii=False).encode() + b"\n")

    def _append(self, data: bytes) -> None:
        with self._disk.open(self._path, OpenMode.UPDATE_OR_CREATE) as file:
            file.append(data)
            file.fsync()
