"""A replicated log in memory: every batch is committed as soon as it is proposed.

Why: handlers and soft state are tested without Raft.
Must never: be more lenient than the real log: commands are JSON text, a result comes one turn of the loop later, and a log that
does not serve refuses.
Rules: `coordinator#commands`, `coordinator#soft-state`, `coordinator#serving`.
"""

import asyncio
import json
from collections.abc import Callable

from bigfleet.coordinator.core.batch import MAX_BATCH_BYTES, encode_batch, encode_command
from bigfleet.coordinator.core.commands import barrier, begin_epoch
from bigfleet.coordinator.log import (
    PROPOSE_TIMEOUT_S,
    Command,
    FatalLogError,
    LogError,
    LogStatus,
    Membership,
    NotLeaderError,
    RaftState,
    Result,
    Snapshot,
    StateMachine,
    TooLargeError,
    UnavailableError,
    UnknownPeerError,
)


class LocalLog:
    """A `ReplicatedLog` of one voter in memory; `lose`, `gain` and `fail_next` simulate elections and errors."""

    def __init__(
        self,
        state_machine: StateMachine,
        *,
        node_id: str = "coordinator-0",
        cluster_id: str = "00000000-0000-4000-8000-000000000000",
        raft_address: str = "127.0.0.1:7791",
        grpc_address: str = "127.0.0.1:7790",
    ) -> None:
        self._state_machine = state_machine
        self._node_id, self._cluster_id = node_id, cluster_id
        self._raft_address, self._grpc_address = raft_address, grpc_address
        self._term, self._index = state_machine.epoch, 1
        self._serving: int | None = None
        self._hint: str | None = None
        self._failures: list[LogError] = []
        self._on_serving: list[Callable[[int], object]] = []
        self._on_lost: list[Callable[[], object]] = []

    async def start(self) -> None:
        self.gain()

    async def propose(self, command: Command, *, timeout_s: float = PROPOSE_TIMEOUT_S) -> Result:
        text = encode_command(command)
        if (size := len(text.encode())) > MAX_BATCH_BYTES:
            raise TooLargeError(size)
        epoch = self._require_serving()
        if timeout_s <= 0:
            raise UnavailableError("the caller's deadline has passed")
        await _next_turn()
        if self._failures:
            raise self._failures.pop(0)
        # Lost in between: the real log would refuse the batch for its old epoch.
        if self._serving != epoch:
            raise NotLeaderError(self._hint)
        return self._commit(epoch, text)

    async def barrier(self, *, timeout_s: float = PROPOSE_TIMEOUT_S) -> None:
        await self.propose(barrier(), timeout_s=timeout_s)

    async def snapshot(self, *, timeout_s: float = PROPOSE_TIMEOUT_S) -> Snapshot:
        await self.barrier(timeout_s=timeout_s)
        return Snapshot(self._state_machine.dump(), self._index, self._term)

    async def admit(self, node_id: str, raft_address: str) -> None:
        self._require_serving()
        if (node_id, raft_address) != (self._node_id, self._raft_address):
            raise UnknownPeerError(node_id, raft_address, f"{self._node_id} at {self._raft_address}")

    def serving(self) -> int | None:
        return self._serving

    def status(self) -> LogStatus:
        is_serving = self._serving is not None
        return LogStatus(
            node_id=self._node_id,
            state=RaftState.SERVING if is_serving else RaftState.FOLLOWER,
            leader=self._grpc_address if is_serving else self._hint,
            cluster_id=self._cluster_id,
            membership=Membership.SOLO,
            term=self._term,
            epoch=self._state_machine.epoch,
            serving=self._serving,
            last_term=self._term,
            last_index=self._index,
            commit_index=self._index,
            applied_index=self._index,
            voters=(self._node_id,),
            waiting=() if is_serving else ("no leader is known",),
        )

    def tick_age_s(self) -> float:
        return 0.0

    def on_serving(self, callback: Callable[[int], object]) -> None:
        self._on_serving.append(callback)

    def on_lost(self, callback: Callable[[], object]) -> None:
        self._on_lost.append(callback)

    async def wait_failure(self) -> FatalLogError:
        never: asyncio.Future[FatalLogError] = asyncio.get_running_loop().create_future()
        return await never

    async def transfer_leadership(self) -> bool:
        return False

    async def stop(self) -> None:
        self.lose()

    # For tests.

    def gain(self) -> None:
        """Win an election: the term rises, the epoch is committed, then this replica serves."""
        self.lose()
        self._term += 1
        begin = begin_epoch(self._term, self._node_id, self._cluster_id)
        result = self._commit(self._state_machine.epoch, encode_command(begin))
        if not result["ok"]:
            raise FatalLogError(f"begin_epoch({self._term}) was refused: {result}")
        for callback in self._on_serving:
            callback(self._term)
        self._serving = self._term

    def lose(self, hint: str | None = None) -> None:
        """Stop serving; the hint is the address of the new leader."""
        was_serving, self._serving, self._hint = self._serving is not None, None, hint
        if was_serving:
            for callback in self._on_lost:
                callback()

    def fail_next(self, *errors: LogError) -> None:
        """Make the next proposals, barriers included, fail with these errors."""
        self._failures.extend(errors)

    def _require_serving(self) -> int:
        if self._serving is None:
            raise NotLeaderError(self._hint)
        return self._serving

    def _commit(self, epoch: int, item: str) -> Result:
        self._index += 1
        results: list[Result] = json.loads(self._state_machine.apply(encode_batch(epoch, [item])))
        return results[0]


async def _next_turn() -> None:
    loop = asyncio.get_running_loop()
    turn = loop.create_future()
    loop.call_soon(turn.set_result, None)
    await turn
