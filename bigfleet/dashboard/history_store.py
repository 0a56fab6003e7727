"""The file of the history: samples in SQLite, written by one thread at a time, bounded in rows and bytes.

Why: SQLite keeps a file whole when the process is killed in the middle of a write, and needs nothing that Python does not bring.
Must never: be used by two threads at once or two processes, delete a file that it cannot read (it is set aside), or grow beyond
`MAX_BYTES`.
Rules: `dashboard#history`, `dashboard#history-bounds`, `dashboard#history-trouble`. ADR-0295.
"""

import enum
import posixpath
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from bigfleet.aio.disk import Disk, DiskCause, DiskError, Lock, ensure_directory
from bigfleet.dashboard.core.history_sample import (
    HistorySample,
    cluster_text,
    fleet_text,
    sample_from,
)
from bigfleet.dashboard.core.history_steps import COARSE, FINE, FINER, MIDDLE, STEPS, HistoryStep, rolled_up
from bigfleet.model.errors import BigFleetError

FILE: Final = "history.sqlite"
MAX_BYTES: Final = 188_743_680
_PAGE: Final = 4096
_FORM: Final = 1
"""Raised when the form of the tables changes; a file of another form is set aside."""
_BESIDE: Final = ("", "-wal", "-shm")


class HistoryProblem(enum.Enum):
    """Why samples are not kept on disk, or are gone."""

    DAMAGED = "damaged"
    FULL = "full"
    LOCKED = "locked"
    UNUSABLE = "unusable"


class HistoryError(BigFleetError):
    """The file of the history cannot be used now."""

    def __init__(self, problem: HistoryProblem, text: str) -> None:
        super().__init__(text)
        self.problem, self.text = problem, text


class HistoryStore:
    """Samples at every step; without a directory they are in memory alone. Every call waits for the disk."""

    def __init__(self, disk: Disk, directory: str | None, *, max_bytes: int = MAX_BYTES) -> None:
        self._disk, self._directory, self._max_bytes = disk, directory, max_bytes
        self._lock: Lock | None = None
        self._open: sqlite3.Connection | None = None

    @property
    def path(self) -> str:
        """Where the file is; empty when there is none."""
        return "" if self._directory is None else posixpath.join(self._directory, FILE)

    def open(self) -> None:
        """Open the file, or begin one; raises `HistoryError`."""
        if self._open is not None:
            return
        try:
            if self._directory is not None and self._lock is None:
                ensure_directory(self._disk, self._directory)
                self._lock = self._disk.lock(self._directory)
        except DiskError as error:
            locked = error.cause is DiskCause.LOCKED
            problem = HistoryProblem.LOCKED if locked else HistoryProblem.UNUSABLE
            raise HistoryError(problem, str(error)) from error
        with self._named():
            # Threads take turns: the caller holds a lock around every call.
            found = sqlite3.connect(self.path or ":memory:", isolation_level=None, check_same_thread=False)
            try:
                self._prepare(found)
            except BaseException:
                found.close()
                raise
            self._open = found

    def _prepare(self, found: sqlite3.Connection) -> None:
        found.execute(f"PRAGMA page_size={_PAGE}")
        found.execute("PRAGMA journal_mode=WAL")
        # A crash of the host may cost the last seconds of charts; a sync for each sample would cost more.
        found.execute("PRAGMA synchronous=NORMAL")
        found.execute("PRAGMA journal_size_limit=4194304")
        found.execute("PRAGMA cache_size=-2048")
        found.execute("PRAGMA trusted_schema=OFF")
        if self.path and (fault := found.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            raise HistoryError(HistoryProblem.DAMAGED, f"{self.path}: {fault}")
        form = found.execute("PRAGMA user_version").fetchone()[0]
        if form not in (0, _FORM):
            raise HistoryError(
                HistoryProblem.DAMAGED, f"{self.path}: found form {form}, allowed is form {_FORM}"
            )
        found.execute(f"PRAGMA max_page_count={self._max_bytes // _PAGE}")
        for step in STEPS:
            found.execute(
                f"CREATE TABLE IF NOT EXISTS {step.name} (at INTEGER PRIMARY KEY, samples INTEGER NOT NULL, "
                "fleet TEXT NOT NULL, clusters TEXT NOT NULL)"
            )
        found.execute(f"PRAGMA user_version={_FORM}")

    def append(self, sample: HistorySample) -> None:
        """Keep a sample, make the longer steps that it completes, and drop what is too old; all of it or nothing."""
        with self._changing() as found:
            _insert(found, FINE, sample)
            for step in (MIDDLE, COARSE):
                for row in self._complete(found, step, step.begin(sample.at)):
                    _insert(found, step, row)
            for step in STEPS:
                _drop(found, step, sample.at)

    def _complete(self, found: sqlite3.Connection, step: HistoryStep, now: int) -> list[HistorySample]:
        """Samples of a step that ended before now and are not there yet."""
        last = found.execute(f"SELECT MAX(at) FROM {step.name} WHERE at < ?", (now,)).fetchone()[0]  # noqa: S608 - our own word
        first = 0 if last is None else last + step.seconds
        if first >= now:
            return []
        return rolled_up(step, _select(found, FINER[step], first, now - 1))

    def read(
        self, step: HistoryStep, first: int, last: int, *, fleet: bool = True, cluster: str | None = None
    ) -> list[HistorySample]:
        """Return samples of a step, oldest first, the one that has begun included; raises `HistoryError`.

        Each has the numbers of the fleet, and those of one cluster if one is named.
        """
        with self._named():
            found = self._connection()
            kept = _select(found, step, first, last, fleet=fleet, clusters=cluster is not None, only=cluster)
        finer = FINER.get(step)
        if finer is None:
            return kept
        begin = kept[-1].at + step.seconds if kept else first
        return kept + rolled_up(step, self.read(finer, begin, last, fleet=fleet, cluster=cluster))

    def rows(self) -> dict[str, int]:
        """Return how many samples there are, by step."""
        with self._named():
            found = self._connection()
            return {step.name: found.execute(f"SELECT COUNT(*) FROM {step.name}").fetchone()[0] for step in STEPS}  # fmt: skip  # noqa: S608

    def size(self) -> int:
        """Return how many bytes the file has, without its journal."""
        with self._named():
            pages = self._connection().execute("PRAGMA page_count").fetchone()[0]
        return int(pages) * _PAGE

    def set_aside(self) -> str:
        """Give a file that cannot be read another name, in place of an older such file, and return that name."""
        self._disconnect()
        for ending in _BESIDE:
            if self._disk.exists(f"{self.path}{ending}"):
                self._disk.rename(f"{self.path}{ending}", f"{self.path}.damaged{ending}")
        return f"{self.path}.damaged"

    def close(self) -> None:
        """Close the file; harmless when done before."""
        self._disconnect()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _disconnect(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def _connection(self) -> sqlite3.Connection:
        self.open()
        if self._open is None:
            raise HistoryError(HistoryProblem.UNUSABLE, f"{self.path} is not open")
        return self._open

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        with self._named():
            found = self._connection()
            found.execute("BEGIN IMMEDIATE")
            try:
                yield found
                found.execute("COMMIT")
            except BaseException:
                if found.in_transaction:
                    found.execute("ROLLBACK")
                raise

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Turn what SQLite raises into an error that says what is wrong."""
        try:
            yield
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", "") or ""
            problem = next((problem for start, problem in _PROBLEMS if name.startswith(start)), None)
            text = f"{self.path or 'the history in memory'}: {error}"
            raise HistoryError(problem or HistoryProblem.UNUSABLE, text) from error
        except ValueError as error:
            raise HistoryError(HistoryProblem.DAMAGED, f"{self.path}: {error}") from error


_PROBLEMS: Final[Sequence[tuple[str, HistoryProblem]]] = (
    ("SQLITE_FULL", HistoryProblem.FULL),
    ("SQLITE_CORRUPT", HistoryProblem.DAMAGED),
    ("SQLITE_NOTADB", HistoryProblem.DAMAGED),
    ("SQLITE_ERROR", HistoryProblem.DAMAGED),  # our statements are right, so the tables are not ours
    ("SQLITE_SCHEMA", HistoryProblem.DAMAGED),
    ("SQLITE_BUSY", HistoryProblem.LOCKED),
    ("SQLITE_LOCKED", HistoryProblem.LOCKED),
)


# The names of tables below are words of `STEPS`; no text from outside is part of a statement.
def _insert(found: sqlite3.Connection, step: HistoryStep, sample: HistorySample) -> None:
    found.execute(
        f"INSERT OR REPLACE INTO {step.name} VALUES (?, ?, ?, ?)",  # noqa: S608
        (sample.at, sample.samples, fleet_text(sample), cluster_text(sample)),
    )


def _select(
    found: sqlite3.Connection,
    step: HistoryStep,
    first: int,
    last: int,
    *,
    fleet: bool = True,
    clusters: bool = True,
    only: str | None = None,
) -> list[HistorySample]:
    columns = f"at, samples, {'fleet' if fleet else 'NULL'}, {'clusters' if clusters else 'NULL'}"
    rows = found.execute(
        f"SELECT {columns} FROM {step.name} WHERE at BETWEEN ? AND ? ORDER BY at",  # noqa: S608
        (first, last),
    )
    return [sample_from(at, samples, text, rest, only) for at, samples, text, rest in rows]


def _drop(found: sqlite3.Connection, step: HistoryStep, now: int) -> None:
    found.execute(f"DELETE FROM {step.name} WHERE at < ?", (now - step.kept_s,))  # noqa: S608
    # By number too: a clock that was ahead once has left samples that would stay for as long.
    found.execute(
        f"DELETE FROM {step.name} WHERE at <= (SELECT at FROM {step.name} ORDER BY at DESC LIMIT 1 OFFSET ?)",  # noqa: S608
        (step.rows,),
    )
