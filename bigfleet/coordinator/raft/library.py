"""pysyncobj as we run it: its settings, its two hooks, and the one replicated method.

Why: everything that touches the library's shape stands here and in `guarded_transport`, so that an upgrade is a project with a
beginning and an end.
Must never: let a command raise (one such command stopped all three replicas for good), have a second replicated method (ids come
from sorted names), or keep tables on the Raft object.
Rules: coordinator 17.3, 17.4 and 17.9; decisions C7 and C12.
"""

import json
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pysyncobj.syncobj
from pysyncobj import SyncObj, SyncObjConf, replicated

from bigfleet.coordinator.core.batch import BATCH_VERSION, newer_version
from bigfleet.coordinator.core.results import CommandRefused, RefusalCode
from bigfleet.coordinator.log import FatalLogError, StateMachine
from bigfleet.coordinator.raft.dump import DumpSerializer
from bigfleet.coordinator.raft.guarded_transport import GuardedTransport, RelayedNode
from bigfleet.coordinator.raft.journal import GuardedJournal
from bigfleet.coordinator.raft.message_guard import MessageGuard

TICK_S = 0.05
_building = threading.Lock()


class UnknownLevelError(FatalLogError):
    """The log holds a batch of a newer form; this version must not skip it (C12)."""

    exit_code = 71


def settings(
    *,
    bind: str,
    journal_path: str,
    dump_path: str,
    password: bytes,
    dumps: DumpSerializer,
    on_state: Callable[[int, int], None],
) -> SyncObjConf:
    """Return the settings of 17.4; the comments there say why each differs from the stock value."""
    return SyncObjConf(
        autoTick=False,  # the library's thread logs and retries whatever raises, a failed sync included
        autoTickPeriod=TICK_S,
        raftMinTimeout=0.6,
        raftMaxTimeout=1.4,
        appendEntriesPeriod=0.15,
        leaderFallbackTimeout=0.5,
        appendEntriesUseBatch=False,
        appendEntriesBatchSizeBytes=1 << 20,
        connectionRetryTime=0.5,
        dnsCacheTime=2.0,
        dnsFailCacheTime=1.0,
        commandsWaitLeader=False,
        commandsQueueSize=1000,
        logCompactionMinEntries=1024,
        logCompactionMinTime=300,
        useFork=False,
        dynamicMembershipChange=False,
        bindAddress=bind,
        bindRetryTime=0.1,
        maxBindRetries=3,
        password=password,
        journalFile=journal_path,
        fullDumpFile=dump_path,
        serializer=dumps.write,
        deserializer=dumps.load,
        onStateChanged=on_state,
    )


@contextmanager
def _journal_hook(journal: GuardedJournal) -> Iterator[None]:
    """Let the next Raft object built on this thread take our journal; the library looks the factory up by its module name."""
    with _building:
        stock = pysyncobj.syncobj.createJournal
        pysyncobj.syncobj.createJournal = lambda _path: journal
        try:
            yield
        finally:
            pysyncobj.syncobj.createJournal = stock


class Raft(SyncObj):  # type: ignore[misc]  # the library has no types
    """The library's object with one replicated method: apply one batch."""

    def __init__(
        self,
        me: RelayedNode | None,
        others: list[RelayedNode],
        conf: SyncObjConf,
        *,
        journal: GuardedJournal,
        state_machine: StateMachine,
        guard: MessageGuard,
        transport: Callable[[Any, Any, Any, MessageGuard], Any] = GuardedTransport,
    ) -> None:
        with _journal_hook(journal):
            super().__init__(
                me,
                others,
                conf,
                transportClass=lambda raft, mine, theirs: transport(raft, mine, theirs, guard),
            )
        self.failure: FatalLogError | None = None
        self._state_machine = state_machine

    @replicated  # type: ignore[untyped-decorator]  # the library has no types
    def apply(self, batch: str) -> str:
        """Apply one batch and return its results as JSON; the replicated entry point."""
        if (version := newer_version(batch)) is not None:
            self.failure = UnknownLevelError(
                f"the log holds a batch of level {version}, this version knows level {BATCH_VERSION}; upgrade it"
            )
            raise self.failure
        try:
            return self._state_machine.apply(batch)
        except Exception as error:  # whatever it is: a raising command would stop every replica for good
            return json.dumps(
                [CommandRefused(RefusalCode.INVALID, f"{type(error).__name__}: {error}").result()]
            )


class _NoFalseAlarms(logging.Filter):
    """Drops the library's cry that it truncates applied entries: our journal does not do what it announces."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith("truncating already-applied log entries")


logging.getLogger("pysyncobj.syncobj").addFilter(_NoFalseAlarms())
