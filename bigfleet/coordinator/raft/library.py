"""pysyncobj as we run it: its settings, its hooks, and the one replicated method.

Why: only this module and `guarded_transport` depend on the library's internals, which limits an upgrade to them.
Must never: let a command raise (one such command stopped all three replicas for good), have a second replicated method (ids come
from sorted names), or keep tables on the Raft object.
Rules: `coordinator#apply-is-total`, `coordinator#group-commit`, `coordinator#raft-settings`,
`coordinator#raft-library`, `coordinator#contract-test`, `coordinator#command-levels`.
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
    """The log holds a batch of a newer version, which must not be skipped (`coordinator#command-levels`)."""

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
    """Return the settings of 17.4."""
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
    """Make the next Raft object use our journal; the library looks its factory up in the module."""
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
        except Exception as error:  # a raising command would stop every replica for good
            return json.dumps(
                [CommandRefused(RefusalCode.INVALID, f"{type(error).__name__}: {error}").result()]
            )


class _NoFalseAlarms(logging.Filter):
    """Drops the library's warning that it truncates applied entries, which our journal does not do."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith("truncating already-applied log entries")


logging.getLogger("pysyncobj.syncobj").addFilter(_NoFalseAlarms())
