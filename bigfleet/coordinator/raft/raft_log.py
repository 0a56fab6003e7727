"""The `ReplicatedLog` of one process, on top of a replica that runs on its own thread.

Must never: report that it serves before soft state was dropped, or after leadership was lost.
Rules: `coordinator#write-outcomes`, `coordinator#serving`, `coordinator#membership`, `coordinator#fresh-snapshot`,
`coordinator#process`, `coordinator#raft-library`.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from structlog.typing import FilteringBoundLogger

from bigfleet.aio.clock import Clock, monotonic_s, timeout
from bigfleet.aio.connection_report import NO_REPORT, ConnectionReport
from bigfleet.aio.disk import Disk
from bigfleet.aio.ids import Ids
from bigfleet.aio.rng import Rng
from bigfleet.aio.seldom import Seldom
from bigfleet.coordinator.batches import Batches, OnBatchResult
from bigfleet.coordinator.log import (
    PROPOSE_TIMEOUT_S,
    Command,
    FatalLogError,
    LogStatus,
    NotLeaderError,
    Result,
    Snapshot,
    StateMachine,
    UnavailableError,
    UnknownPeerError,
)
from bigfleet.coordinator.raft.certificates import RaftTls
from bigfleet.coordinator.raft.directory import ReplicaDirectory
from bigfleet.coordinator.raft.formation import Formation, OnStep
from bigfleet.coordinator.raft.membership import RaftMembers
from bigfleet.coordinator.raft.peer_calls import PeerCalls
from bigfleet.coordinator.raft.relays import Relays, Resolve, as_named
from bigfleet.coordinator.raft.replica import ReplicaListeners
from bigfleet.coordinator.raft.replica_runner import ReplicaRunner
from bigfleet.coordinator.raft.replica_status import ReplicaStatus
from bigfleet.coordinator.raft.startup import StartFlags
from bigfleet.obs.metrics import Metrics
from bigfleet.transport.address import ListenAddress, parse_listen

HAND_OVER_S = 1.0
DRAIN_S = 2.0
NO_PEER_S = 15.0


@dataclass(frozen=True, slots=True)
class RaftSettings:
    """The settings of the log."""

    members: RaftMembers
    data_dir: str
    bind: ListenAddress
    bootstrap: bool = False
    bootstrap_without_peers: bool = False
    secret: bytes = b""
    """The shared password; required beyond one replica (`coordinator#raft-secret`)."""


class RaftLog:
    """A `ReplicatedLog` on pysyncobj with its guards."""

    def __init__(
        self,
        settings: RaftSettings,
        *,
        clock: Clock,
        disk: Disk,
        ids: Ids,
        rng: Rng,
        state_machine: StateMachine,
        calls: PeerCalls,
        metrics: Metrics,
        log: FilteringBoundLogger,
        tls: RaftTls | None = None,
        resolve: Resolve = as_named,
        report: ConnectionReport = NO_REPORT,
        on_step: OnStep = lambda _step: None,
    ) -> None:
        self._settings, self._members = settings, settings.members
        self._clock, self._disk, self._ids, self._rng = clock, disk, ids, rng
        self._state_machine, self._calls, self._metrics, self._log = state_machine, calls, metrics, log
        self._tls, self._resolve, self._on_step, self._report = tls, resolve, on_step, report
        self._seldom = Seldom(clock)
        self._batches = Batches(
            clock, lambda commands: metrics.histogram("bigfleet_coordinator_batch_commands").observe(commands)
        )
        self._status = ReplicaStatus(settings.members, state_machine)
        self._on_serving: list[Callable[[int], object]] = []
        self._on_lost: list[Callable[[], object]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failure: asyncio.Future[FatalLogError] | None = None
        self._directory: ReplicaDirectory | None = None
        self._relays: Relays | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._failure = self._loop.create_future()
        self._directory = directory = ReplicaDirectory(self._disk, self._settings.data_dir)
        try:
            self._status.on_disk = directory.identity(self._members.me.node_id)
            directory.examine()
            directory.clear_leftovers()
            if len(self._members.all) > 1:
                self._relays = self._make_relays()
                await self._relays.start()
        except BaseException:
            await self.stop()
            raise
        runner = self._make_runner(directory)
        formation = self._make_formation(directory, runner)
        self._status.runner, self._status.formation = runner, formation
        self._tasks = [self._loop.create_task(self._form(formation), name="raft formation")]
        if self._relays is not None:
            self._tasks.append(self._loop.create_task(self._warn_without_peers(), name="raft peers"))

    async def propose(self, command: Command, *, timeout_s: float = PROPOSE_TIMEOUT_S) -> Result:
        self._refuse_unless_serving()
        return await self._batches.propose(command, timeout_s)

    async def barrier(self, *, timeout_s: float = PROPOSE_TIMEOUT_S) -> None:
        epoch = self._refuse_unless_serving()
        await self._batches.barrier(timeout_s)
        if self._refuse_unless_serving() != epoch:
            raise NotLeaderError(self._status.hint())

    async def snapshot(self, *, timeout_s: float = PROPOSE_TIMEOUT_S) -> Snapshot:
        await self.barrier(timeout_s=timeout_s)
        try:
            async with timeout(self._clock, timeout_s):
                return await self._refuse_unless_started().on_thread(lambda replica: replica.snapshot())
        except TimeoutError:
            raise UnavailableError(f"no snapshot within {timeout_s:g} s") from None

    async def admit(self, node_id: str, raft_address: str) -> None:
        self._refuse_unless_serving()
        if not any((m.node_id, m.raft_address) == (node_id, raft_address) for m in self._members.all):
            allowed = ", ".join(f"{member.node_id} at {member.raft_address}" for member in self._members.all)
            raise UnknownPeerError(node_id, raft_address, allowed)
        # What is committed after the call began comes after everything the caller ever acknowledged.
        await self.barrier()

    def status(self) -> LogStatus:
        return self._status.log_status()

    def serving(self) -> int | None:
        return self._status.serving_now()

    def tick_age_s(self) -> float:
        runner = self._status.runner
        return 0.0 if runner is None else runner.tick_age_s()

    def journal_bytes(self) -> int:
        """Return the size of the journal file, for a gauge."""
        replica = self._status.replica
        return 0 if replica is None else replica.journal.size

    def on_serving(self, callback: Callable[[int], object]) -> None:
        self._on_serving.append(callback)

    def on_lost(self, callback: Callable[[], object]) -> None:
        self._on_lost.append(callback)

    async def wait_failure(self) -> FatalLogError:
        if self._failure is None:
            raise UnavailableError("the log was not started")
        return await asyncio.shield(self._failure)

    def abort(self, error: FatalLogError) -> None:
        """Fail the log for a cause outside of it; from any thread."""
        self._call_on_loop(self._fail, error)

    async def transfer_leadership(self) -> bool:
        runner = self._status.runner
        if self._status.serving_now() is None or runner is None or len(self._members.all) == 1:
            return False
        self._batches.freeze()
        try:
            with suppress(TimeoutError):
                async with timeout(self._clock, DRAIN_S):
                    await self._batches.idle()
            give_up_s = monotonic_s(self._clock) + HAND_OVER_S
            while monotonic_s(self._clock) < give_up_s:
                if self._status.serving_now() is None:
                    return True
                await runner.on_thread(lambda replica: replica.transfer_leadership())
                await self._clock.sleep(0.05)
            return self._status.serving_now() is None
        finally:
            self._batches.unfreeze()

    async def stop(self) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._status.runner is not None:
            await self._status.runner.stop()
        self._stop_serving("stopped")
        self._batches.end()
        relays, self._relays = self._relays, None
        if relays is not None:
            await relays.stop()
        directory, self._directory = self._directory, None
        if directory is not None:
            directory.close()

    # Parts.

    def _make_relays(self) -> Relays:
        def place(address: str) -> tuple[str, int]:
            parsed = parse_listen(address, "peer address")
            return parsed.host, parsed.port

        return Relays(
            self._settings.bind,
            {member.node_id: place(member.raft_address) for member in self._members.others},
            self._tls,
            on_refused=self._count_refused,
            on_dead=self.abort,
            resolve=self._resolve,
            report=self._report,
        )

    def _make_runner(self, directory: ReplicaDirectory) -> ReplicaRunner:
        # A single replica has no peers, so a random password will do.
        password = self._settings.secret or "".join(self._ids.session() for _ in range(4)).encode()
        return ReplicaRunner(
            members=self._members,
            directory=directory,
            state_machine=self._state_machine,
            clock=self._clock,
            metrics=self._metrics,
            password=password,
            relays=self._relays,
            listeners=self._listeners(),
        )

    def _make_formation(self, directory: ReplicaDirectory, runner: ReplicaRunner) -> Formation:
        setting = StartFlags(
            replicas=len(self._members.all),
            ordinal=self._members.ordinal,
            bootstrap=self._settings.bootstrap,
            without_peers=self._settings.bootstrap_without_peers,
        )
        return Formation(
            setting,
            self._members,
            directory=directory,
            runner=runner,
            batches=self._batches,
            calls=self._calls,
            clock=self._clock,
            ids=self._ids,
            jitter=self._rng.stream("raft join"),
            log=self._log,
            on_step=self._on_step,
        )

    async def _form(self, formation: Formation) -> None:
        try:
            await formation.run()
        except FatalLogError as error:
            self._fail(error)
        except Exception as error:  # no other code watches this task
            self._log.exception("formation_failed")
            self._fail(FatalLogError(f"formation ended: {type(error).__name__}: {error}"))

    async def _warn_without_peers(self) -> None:
        """Log a warning while no peer is connected: with a wrong secret the library logs nothing."""
        alone_since_s = monotonic_s(self._clock)
        while True:
            await self._clock.sleep(1.0)
            now_s = monotonic_s(self._clock)
            if not self._status.lacks_peers:
                alone_since_s = now_s
            elif now_s - alone_since_s >= NO_PEER_S:
                self._log.warning(
                    "no_raft_peer",
                    seconds=NO_PEER_S,
                    hint="are the peers up, and is --raft-secret-file the same?",
                )
                alone_since_s = now_s

    # Callbacks of the other threads; they run on the loop, in order.

    def _listeners(self) -> ReplicaListeners:
        return ReplicaListeners(
            on_serving=lambda term: self._call_on_loop(self._start_serving, term),
            on_lost=lambda cause: self._call_on_loop(self._stop_serving, cause),
            on_election=lambda: self._metrics.counter("bigfleet_coordinator_elections_total").inc(),
            on_fatal=self.abort,
            on_error=lambda text: self._call_on_loop(self._log_error, text),
        )

    def _call_on_loop(self, call: Callable[..., None], *arguments: object) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: the process is ending
                self._loop.call_soon_threadsafe(call, *arguments)

    def _start_serving(self, term: int) -> None:
        replica = self._status.replica
        if replica is None or replica.serving != term:
            return  # lost again before this callback ran
        for callback in self._on_serving:
            callback(term)
        self._status.serving = term
        self._log.info("serving", epoch=term)

        def submit(batch: str, on_end: OnBatchResult) -> None:
            replica.submit(batch, lambda end, results: self._call_on_loop(on_end, end, results))

        self._batches.begin(term, submit)

    def _stop_serving(self, cause: str) -> None:
        if self._status.serving is None:
            return
        self._status.serving = None
        self._metrics.counter("bigfleet_coordinator_leadership_lost_total", cause=cause).inc()
        self._log.info("serving_ended", cause=cause)
        self._batches.end(self._status.hint())
        for callback in self._on_lost:
            callback()

    def _log_error(self, text: str) -> None:
        if (unsaid := self._seldom.due("raft_trouble")) is not None:
            self._log.error("raft_trouble", detail=text, unsaid=unsaid)

    def _count_refused(self, reason: str, detail: str) -> None:
        self._metrics.counter("bigfleet_coordinator_raft_rejected_total", reason=reason).inc()
        if (unsaid := self._seldom.due(reason)) is not None:
            self._call_on_loop(self._log_refused, reason, detail, unsaid)

    def _log_refused(self, reason: str, detail: str, unsaid: int) -> None:
        self._log.warning("raft_connection_refused", reason=reason, detail=detail, unsaid=unsaid)

    def _fail(self, error: FatalLogError) -> None:
        self._stop_serving("failure")
        if self._failure is not None and not self._failure.done():
            self._log.error("log_failed", error=str(error), exit_code=error.exit_code)
            self._failure.set_result(error)

    def _refuse_unless_started(self) -> ReplicaRunner:
        if self._status.runner is None:
            raise NotLeaderError
        return self._status.runner

    def _refuse_unless_serving(self) -> int:
        serving = self._status.serving_now()
        if serving is None:
            raise NotLeaderError(self._status.hint())
        return serving
