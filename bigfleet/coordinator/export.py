"""The export loop: the leader writes a snapshot into a directory every few minutes; `latest` always names a complete one.

Why: losing all disks then costs at most one interval of writes.
Must never: let another user read an export, move `latest` before its target is durable, remove that target, or end the process over a full disk.
Rules: `coordinator#export`.
"""

import asyncio
import posixpath
from collections.abc import Callable
from typing import Final

from structlog.typing import FilteringBoundLogger

from bigfleet.aio.clock import Clock
from bigfleet.aio.disk import AnyPath, Disk, DiskError, OpenMode, ensure_directory
from bigfleet.coordinator.archive import META_NAME, STATE_NAME, Archive, make_archive
from bigfleet.coordinator.leader_check import Leadership
from bigfleet.coordinator.log import LogError, ReplicatedLog
from bigfleet.model.times import rfc3339_of_ns
from bigfleet.obs.metrics import Metrics

DEFAULT_INTERVAL_S: Final = 300.0
DEFAULT_KEEP: Final = 12
LATEST: Final = "latest"
_TEMPORARY: Final = ".tmp-"
_NEXT_LATEST: Final = ".latest.tmp"


class ExportDirectory:
    """The directory of exports; every call blocks, so none belongs on the event loop."""

    def __init__(self, disk: Disk, path: AnyPath, keep: int) -> None:
        self._disk, self._path, self._keep = disk, str(path), keep

    def add(self, archive: Archive, name: str) -> None:
        """Write one export, point `latest` at it, and remove the oldest ones beyond `keep`."""
        ensure_directory(self._disk, self._path)
        self._clear_leftovers()
        temporary, final = self._at(f"{_TEMPORARY}{name}"), self._at(name)
        self._disk.mkdir(temporary)
        for file_name, content in ((META_NAME, archive.meta.text()), (STATE_NAME, archive.state)):
            path = posixpath.join(temporary, file_name)
            with self._disk.open(path, OpenMode.CREATE) as file:
                file.pwrite(0, content)
                file.fsync()
        self._disk.fsync_directory(temporary)
        self._disk.rename(temporary, final)
        self._disk.fsync_directory(self._path)
        self._disk.symlink(name, self._at(_NEXT_LATEST))
        self._disk.rename(self._at(_NEXT_LATEST), self._at(LATEST))
        self._disk.fsync_directory(self._path)
        self._prune(name)

    def _prune(self, newest: str) -> None:
        exports = [name for name in self._disk.list_names(self._path) if _is_export(name) and name != newest]
        # Names begin with their time, so the newest sort last; the one just written always stays.
        for name in exports[: max(0, len(exports) - (self._keep - 1))]:
            self._remove(name)

    def _clear_leftovers(self) -> None:
        for name in self._disk.list_names(self._path):
            if name.startswith(_TEMPORARY):
                self._remove(name)
            elif name == _NEXT_LATEST:
                self._disk.remove(self._at(name))

    def _remove(self, name: str) -> None:
        for file_name in self._disk.list_names(self._at(name)):
            self._disk.remove(posixpath.join(self._at(name), file_name))
        self._disk.rmdir(self._at(name))

    def _at(self, name: str) -> str:
        return posixpath.join(self._path, name)


class ExportLoop:
    """Exports while this replica is the serving leader."""

    def __init__(
        self,
        *,
        directory: ExportDirectory,
        interval_s: float,
        log: ReplicatedLog,
        leadership: Leadership,
        clock: Clock,
        metrics: Metrics,
        logger: FilteringBoundLogger,
        on_exported: Callable[[int], object] = lambda _now_ns: None,
    ) -> None:
        self._on_exported = on_exported
        self._directory, self._interval_s = directory, interval_s or DEFAULT_INTERVAL_S
        self._log, self._leadership = log, leadership
        self._clock, self._metrics, self._logger = clock, metrics, logger

    async def run(self) -> None:
        """Export once per interval until cancelled."""
        while True:
            await self._clock.sleep(self._interval_s)
            if self._leadership.current is not None:
                await self.export()

    async def export(self) -> bool:
        """Export once; a failure is logged and counted, and the next interval tries again."""
        try:
            snapshot = await self._log.snapshot()
            now_ns = self._clock.wall_ns()
            voters = self._log.status().voters
            archive = await asyncio.to_thread(make_archive, snapshot, voters, now_ns)
            name = f"{_stamp(now_ns)}-{archive.meta.id}"
            await asyncio.to_thread(self._directory.add, archive, name)
        except (LogError, DiskError) as error:
            self._count("error")
            self._logger.warning("snapshot_export_failed", why=str(error))
            return False
        self._count("success")
        self._on_exported(now_ns)
        self._metrics.gauge("bigfleet_coordinator_snapshot_export_last_success_timestamp_seconds").set(
            now_ns / 1e9
        )
        self._logger.info("snapshot_exported", name=name, index=archive.meta.index, bytes=len(archive.state))
        return True

    def _count(self, outcome: str) -> None:
        self._metrics.counter("bigfleet_coordinator_snapshot_export_total", outcome=outcome).inc()


def _stamp(now_ns: int) -> str:
    """Return a time as YYYYMMDD-HHMMSS in UTC."""
    return rfc3339_of_ns(now_ns)[:19].replace("-", "").replace(":", "").replace("T", "-")


def _is_export(name: str) -> bool:
    return len(name) > 15 and name[:8].isdigit() and name[8] == "-" and name[9:15].isdigit()
