"""The audit of what a person does at a provider: repairs of Failed machines and resets of fence marks, with time and result.

Must never: let such an action take effect that could not be recorded first.
Rules: `providers#repair`, `providers#reset-marks`.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Protocol

from structlog.typing import FilteringBoundLogger

from bigfleet.aio.disk import AnyPath, Disk, OpenMode


class RepairAudit(Protocol):
    """Takes audit lines, which must not be lost."""

    async def record(self, line: Mapping[str, object]) -> None:
        """Return when the line is durable; raise when it is not."""


class RepairAuditLog:
    """Writes audit lines to the log, for providers without a state directory."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        self._log = log

    async def record(self, line: Mapping[str, object]) -> None:
        self._log.warning("audit", **dict(line))


class RepairAuditFile:
    """A file of one JSON object per line, each synced."""

    def __init__(self, disk: Disk, path: AnyPath) -> None:
        self._disk, self._path = disk, path

    async def record(self, line: Mapping[str, object]) -> None:
        await asyncio.to_thread(self._append, json.dumps(dict(line), ensure_ascii=False).encode() + b"\n")

    def _append(self, data: bytes) -> None:
        with self._disk.open(self._path, OpenMode.UPDATE_OR_CREATE) as file:
            file.append(data)
            file.fsync()
