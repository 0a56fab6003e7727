"""The `ReplicatedLog` of one process, kept in etcd: every entry and snapshot is a key, and nothing is on this host.

Must never: acknowledge a batch before etcd has said that it is there, send a second batch while the fate of one is unknown,
serve before all entries of earlier leaders are applied, or let a clock decide what is true.
Rules: `coordinator#etcd-append`, `coordinator#etcd-leader`, `coordinator#etcd-barrier`, `coordinator#etcd-following`,
`coordinator#etcd-snapshots`, `coordinator#write-outcomes`, `coordinator#serving`.
"""

import asyncio
import json
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

from structlog.typing import FilteringBoundLogger

from bigfleet.aio.clock import Clock, monotonic_s, timeout
from bigfleet.aio.ids import Ids
from bigfleet.aio.seldom import Seldom
from bigfleet.coordinator.batches import Batches, BatchResult, OnBatchResult
from bigfleet.coordinator.core.batch import encode_batch, encode_command
from bigfleet.coordinator.core.commands import begin_epoch
from bigfleet.coordinator.etcd.client import EtcdError, WrongStoreError
from bigfleet.coordinator.etcd.following import LogFollower
from bigfleet.coordinator.etcd.layout import (
    FORMAT,
    Head,
    StoredCluster,
    StoredReplica,
)
from bigfleet.coordinator.etcd.lease import ProcessLease
from bigfleet.coordinator.etcd.settings import EtcdSettings
from bigfleet.coordinator.etcd.shared_reads import SharedReads
from bigfleet.coordinator.etcd.snapshots import encode_tables
from bigfleet.coordinator.etcd.status import status_of
from bigfleet.coordinator.etcd.store import EtcdStore, LeadershipLostError, SnapshotGoneError, View
from bigfleet.coordinator.log import (
    PROPOSE_TIMEOUT_S,
    Command,
    CommandOutcomeUnknownError,
    FatalLogError,
    LogError,
    LogStatus,
    NotLeaderError,
    Result,
    Snapshot,
    StateMachine,
    UnavailableError,
    UnknownPeerError,
)
from bigfleet.coordinator.raft.identity import new_cluster_id
from bigfleet.obs.metrics import Metrics

LOOK_S: Final = 1.0
_AGAIN_S: Final = 0.2
_IN_DOUBT_S: Final = 0.05
_DRAIN_S: Final = 2.0
_HAND_OVER_S: Final = 1.0
_FRESH_S: Final = 5.0


class EtcdLog:
    """A `ReplicatedLog` in etcd."""

    def __init__(
        self,
        settings: EtcdSettings,
        store: EtcdStore,
        *,
        clock: Clock,
        ids: Ids,
        state_machine: StateMachine,
        metrics: Metrics,
        log: FilteringBoundLogger,
    ) -> None:
        self._settings, self._store, self._clock, self._ids = settings, store, clock, ids
        self._state_machine, self._metrics, self._log = state_machine, metrics, log
        self._me = StoredReplica(settings.node_id, settings.grpc_address)
        self._lease = ProcessLease(store, self._me, clock, settings.lease_s)
        self._seldom = Seldom(clock)
        # One at a time: etcd carries out concurrent calls in any order.
        self._batches = Batches(
            clock,
            lambda commands: metrics.histogram("bigfleet_coordinator_batch_commands").observe(commands),
            in_flight=1,
        )
        self._on_serving: list[Callable[[int], object]] = []
        self._on_lost: list[Callable[[], object]] = []
        self._follower = LogFollower(store, state_machine, log)
        self._view = View(0)
        self._looked_s: float | None = None
        self._ticked_s = monotonic_s(clock)
        self._trouble = "starting"
        self._won = 0
        """The revision of the election that this process has won; 0 while it does not lead."""
        self._spent = 0
        """The last election that this process won; it may not begin a second epoch."""
        self._serving: int | None = None
        self._in_flight = False
        self._wake = asyncio.Event()
        self._reads = SharedReads(self._confirm)
        self._writing: dict[asyncio.Task[None], None] = {}
        self._failure: asyncio.Future[FatalLogError] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._leaving = False
        self._status: tuple[object, LogStatus | None] = None, None

    # What the seam promises.

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._failure = loop.create_future()
        self._tasks = [
            loop.create_task(self._guarded(self._alternate()), name="etcd log"),
            loop.create_task(self._guarded(self._lease.keep(self._note_trouble)), name="etcd lease"),
        ]

    async def propose(self, command: Command, *, timeout_s: float = PROPOSE_TIMEOUT_S) -> Result:
        self._refuse_unless_serving()
        return await self._batches.propose(command, timeout_s)

    async def barrier(self, *, timeout_s: float = PROPOSE_TIMEOUT_S) -> None:
        epoch = self._refuse_unless_serving()
        try:
            async with timeout(self._clock, timeout_s):
                await self._reads.wait()
        except TimeoutError:
            raise CommandOutcomeUnknownError(f"etcd gave no answer within {timeout_s:g} s") from None
        if self._refuse_unless_serving() != epoch:
            raise NotLeaderError(self._hint())

    async def snapshot(self, *, timeout_s: float = PROPOSE_TIMEOUT_S) -> Snapshot:
        await self.barrier(timeout_s=timeout_s)
        return Snapshot(
            self._state_machine.dump(), self._follower.applied.index, self._follower.applied.epoch
        )

    async def admit(self, node_id: str, raft_address: str) -> None:
        self._refuse_unless_serving()
        raise UnknownPeerError(node_id, raft_address, "none, as the log is in etcd")

    def status(self) -> LogStatus:
        view, serving, waiting = self._view, self.serving(), self._waiting()
        key = (view, serving, waiting, self._follower.applied, self._won, self._state_machine.epoch)
        known = self._status[1]
        if known is None or self._status[0] != key:
            known = status_of(
                view,
                node_id=self._settings.node_id,
                leader=self._settings.grpc_address if serving is not None else self._hint(),
                won=self._won,
                serving=serving,
                applied=self._follower.applied,
                epoch=self._state_machine.epoch,
                waiting=waiting,
            )
            self._status = key, known
        return known

    def serving(self) -> int | None:
        # Where the lease may have ended, another process may serve already.
        return self._serving if self._lease.is_alive else None

    def tick_age_s(self) -> float:
        return monotonic_s(self._clock) - self._ticked_s

    def on_serving(self, callback: Callable[[int], object]) -> None:
        self._on_serving.append(callback)

    def on_lost(self, callback: Callable[[], object]) -> None:
        self._on_lost.append(callback)

    async def wait_failure(self) -> FatalLogError:
        if self._failure is None:
            raise UnavailableError("the log was not started")
        return await asyncio.shield(self._failure)

    def abort(self, error: FatalLogError) -> None:
        """Fail the log for a cause outside of it."""
        self._fail(error)

    async def transfer_leadership(self) -> bool:
        others = [replica for replica in self._view.replicas if replica.id != self._settings.node_id]
        if self.serving() is None or not others:
            return False
        self._batches.freeze()
        try:
            with suppress(TimeoutError):
                async with timeout(self._clock, _DRAIN_S):
                    await self._batches.idle()
            self._leaving = True
            self._stop_serving("transfer")
            self._wake.set()  # the election is given back on the way out
            give_up_s = monotonic_s(self._clock) + _HAND_OVER_S
            while monotonic_s(self._clock) < give_up_s:
                if self._hint() is not None:
                    return True
                await self._clock.sleep(0.05)
            return False
        finally:
            self._leaving = False
            self._batches.unfreeze()

    async def stop(self) -> None:
        tasks, self._tasks = [*self._tasks, *self._writing], []
        await self._reads.stop()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._stop_serving("stopped")
        self._batches.end()
        with suppress(EtcdError):
            await self._lease.give_up()
        await self._store.client.close()

    # The life of the log: follow, lead, and over again.

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except FatalLogError as error:
            self._fail(error)
        except Exception as error:  # no other code watches this task
            self._log.exception("etcd_log_failed")
            self._fail(FatalLogError(f"the log ended: {type(error).__name__}: {error}"))

    async def _alternate(self) -> None:
        while True:
            try:
                won = await self._follow()
                await self._lead(won)
            except EtcdError as error:
                self._note_trouble(error)
                await self._clock.sleep(_AGAIN_S)
            except (LeadershipLostError, SnapshotGoneError) as error:
                self._log.info("etcd_log_starts_over", why=str(error))

    async def _look(self) -> View:
        self._ticked_s = monotonic_s(self._clock)
        view = await self._store.look()
        self._looked_s = monotonic_s(self._clock)
        self._trouble = ""
        if view.cluster is not None and view.cluster.etcd != f"{self._store.client.cluster_id:x}":
            raise WrongStoreError(
                f"{self._store.keys.prefix.decode()}: found etcd cluster {self._store.client.cluster_id:x}, allowed is "
                f"{view.cluster.etcd}, in which it was formed; was etcd restored from a backup?"
            )
        if view.head.index < self._follower.applied.index:
            raise WrongStoreError(
                f"{self._store.keys.head.decode()}: found {view.head.index}, allowed is at least {self._follower.applied.index}, "
                "which this process has applied"
            )
        self._view = view
        return view

    async def _follow(self) -> View:
        """Apply what leaders append until this process has won an election; return the view that shows it."""
        while True:
            view = await self._look()
            if view.cluster is None:
                await self._form()
                continue
            await self._follower.catch_up(view, self._look)
            if view.leader is None:
                if not self._leaving and self._lease.is_alive:
                    await self._store.campaign(self._me, self._lease.id)
                    self._metrics.counter("bigfleet_coordinator_elections_total").inc()
                else:
                    await self._clock.sleep(_AGAIN_S)
            elif view.leader.created == self._spent:
                await self._store.resign(self._spent)
            elif self._lease.id and view.leader.lease == self._lease.id:
                return view
            else:
                await self._watch(view)

    async def _form(self) -> None:
        if not self._settings.bootstrap:
            self._trouble = f"no cluster at {self._store.keys.prefix.decode()} in etcd; start one replica with --bootstrap"
            await self._clock.sleep(LOOK_S)
            return
        here = f"{self._store.client.cluster_id:x}"
        if not await self._store.form(StoredCluster(FORMAT, new_cluster_id(self._ids), 1, 0, here)):
            await self._clock.sleep(_AGAIN_S)

    async def _watch(self, view: View) -> None:
        """Apply entries as they come; return when there may be no leader, or when the watch has to begin anew."""
        watching = asyncio.ensure_future(self._follower.watch(view.revision + 1))
        try:
            while True:
                behind = self._follower.applied.index
                with suppress(TimeoutError):
                    async with timeout(self._clock, LOOK_S):
                        await asyncio.wait([watching])
                if watching.done():
                    return await watching
                view = await self._look()
                if view.leader is None or self._lease.id == view.leader.lease:
                    return None
                if view.head.index > self._follower.applied.index == behind:
                    # The member that is watched may be cut off; looks go to whichever answers.
                    self._store.client.elsewhere()
                    return None
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _lead(self, view: View) -> None:
        """Serve under the election of a view until it is lost."""
        if view.leader is None or view.cluster is None:
            return
        won, epoch = view.leader.created, view.cluster.epoch_base + view.leader.created
        self._won = self._spent = won
        try:
            await self._begin_epoch(epoch, view.cluster.cluster_id)
            for callback in self._on_serving:
                callback(epoch)
            self._serving = epoch
            self._log.info("serving", epoch=epoch)
            self._batches.begin(epoch, self._submit)
            await self._stay(won)
        finally:
            self._won = 0
            self._stop_serving("deposed")
            for task in list(self._writing):
                task.cancel()
            # A second election needs a new revision.
            with suppress(EtcdError):
                await self._store.resign(won)

    async def _begin_epoch(self, epoch: int, cluster_id: str) -> None:
        command = begin_epoch(epoch, self._settings.node_id, cluster_id)
        batch = encode_batch(self._state_machine.epoch, [encode_command(command, ascii_only=True)])
        [result] = json.loads(await self._append(batch))
        if not result["ok"]:
            raise WrongStoreError(
                f"{self._store.keys.prefix.decode()}: epoch {epoch} was refused: {result.get('detail')}; "
                "the log comes from another etcd, or from a newer state of this one"
            )

    async def _stay(self, won: int) -> None:
        """Return once the election no longer counts; write snapshots meanwhile."""
        snapshot: asyncio.Task[None] | None = None
        try:
            while not self._leaving:
                self._wake.clear()
                with suppress(TimeoutError):
                    async with timeout(self._clock, LOOK_S / 2):
                        await self._wake.wait()
                if not self._lease.is_alive:
                    raise LeadershipLostError("the lease may have ended")
                try:
                    view = await self._look()
                except EtcdError as error:
                    self._note_trouble(error)
                    continue
                if view.leader is None or view.leader.created != won:
                    raise LeadershipLostError("the key of this election is gone")
                if snapshot is not None and snapshot.done():
                    await self._after_snapshot(snapshot)
                    snapshot = None
                if snapshot is None and self._snapshot_is_due():
                    snapshot = asyncio.ensure_future(self._write_snapshot(won))
        finally:
            if snapshot is not None:
                snapshot.cancel()
                await asyncio.gather(snapshot, return_exceptions=True)

    def _snapshot_is_due(self) -> bool:
        policy, follower = self._settings.snapshots, self._follower
        return (
            follower.entries_since_snapshot >= policy.entries or follower.bytes_since_snapshot >= policy.bytes
        )

    async def _write_snapshot(self, won: int) -> None:
        head, tables = self._follower.applied, self._state_machine.dump()
        self._follower.snapshot_begun()
        data = await asyncio.to_thread(encode_tables, tables)
        await self._store.write_snapshot(won, head, data, self._settings.snapshots.keep)
        self._log.info("etcd_snapshot_written", index=head.index, bytes=len(data))

    async def _after_snapshot(self, snapshot: asyncio.Task[None]) -> None:
        try:
            await snapshot
        except EtcdError as error:
            self._follower.entries_since_snapshot = self._settings.snapshots.entries  # due again
            self._note_trouble(error)

    # Writing and reading.

    def _submit(self, batch: str, on_end: OnBatchResult) -> None:
        async def write() -> None:
            try:
                results = await self._append(batch)
            except EtcdError as error:
                self._note_trouble(error)
                on_end(BatchResult.BUSY, "")
            except LeadershipLostError:
                self._wake.set()
                on_end(BatchResult.UNKNOWN, "")
            except FatalLogError as error:
                self._fail(error)
            else:
                on_end(BatchResult.APPLIED, results)

        task = asyncio.get_running_loop().create_task(write())
        self._writing[task] = None
        task.add_done_callback(lambda ended: self._writing.pop(ended, None))

    async def _append(self, batch: str) -> str:
        """Append one batch and apply it; asks again for as long as its fate is unknown.

        `EtcdError` means that it was certainly refused, `LeadershipLostError` that its fate stays unknown.
        """
        won, before = self._won, self._follower.applied
        base = 0 if self._view.cluster is None else self._view.cluster.epoch_base
        after = Head(before.index + 1, base + won)
        in_doubt = False
        self._in_flight = True
        try:
            while True:
                if self._won != won:
                    raise LeadershipLostError("leadership was lost while a batch was on its way")
                try:
                    await self._store.append(won, before, after, batch)
                    break
                except EtcdError as error:
                    in_doubt = in_doubt or error.in_doubt
                    if not in_doubt:
                        raise
                    self._note_trouble(error)
                    await self._clock.sleep(_IN_DOUBT_S)
            return self._follower.apply_next(after.index, batch)
        finally:
            self._in_flight = False

    async def _confirm(self) -> LogError | None:
        """Ask etcd whether this process still leads; return what every reader of this read has to be told."""
        applied, key = self._follower.applied.index, self._store.keys.head.decode()
        try:
            head = await self._store.confirm(self._won)
            if not applied <= head.index <= self._follower.applied.index + self._in_flight:
                raise WrongStoreError(
                    f"{key}: found {head.index}, allowed is {self._follower.applied.index}: "
                    "something else than the leader has written to the prefix"
                )
        except LeadershipLostError:
            self._wake.set()
            return NotLeaderError(self._hint())
        except EtcdError as error:
            self._note_trouble(error)
            return UnavailableError(str(error))
        except FatalLogError as error:
            self._fail(error)
            return UnavailableError(str(error))
        return None

    # The rest.

    def _stop_serving(self, cause: str) -> None:
        if self._serving is None:
            return
        self._serving = None
        self._metrics.counter("bigfleet_coordinator_leadership_lost_total", cause=cause).inc()
        self._log.info("serving_ended", cause=cause)
        self._batches.end(self._hint())
        for callback in self._on_lost:
            callback()

    def _fail(self, error: FatalLogError) -> None:
        self._stop_serving("failure")
        if self._failure is not None and not self._failure.done():
            self._log.error("log_failed", error=str(error), exit_code=error.exit_code)
            self._failure.set_result(error)

    def _note_trouble(self, error: EtcdError) -> None:
        self._ticked_s = monotonic_s(self._clock)
        self._trouble = str(error)
        if (unsaid := self._seldom.due("etcd_trouble")) is not None:
            self._log.warning("etcd_trouble", detail=str(error), unsaid=unsaid)

    def _refuse_unless_serving(self) -> int:
        serving = self.serving()
        if serving is None:
            raise NotLeaderError(self._hint())
        return serving

    def _hint(self) -> str | None:
        leader = self._view.leader
        if leader is None or leader.replica.id == self._settings.node_id:
            return None
        return leader.replica.address

    def _waiting(self) -> tuple[str, ...]:
        if self._looked_s is None or monotonic_s(self._clock) - self._looked_s > _FRESH_S:
            return (self._trouble or "etcd has not answered yet",)
        if self._view.cluster is None:
            return (self._trouble or "no cluster is formed",)
        return () if self._view.leader is not None else ("no leader is known",)
