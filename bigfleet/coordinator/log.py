"""The interface of the replicated log: propose, barrier, snapshot, status.

Why: state machine and RPC handlers do not depend on pysyncobj, so that another log (etcd, say) could replace it.
Must never: import a Raft library, or report a timeout as a failure: the outcome is unknown.
Rules: `coordinator#commands`, `coordinator#write-outcomes`, `coordinator#soft-state`, `coordinator#serving`,
`coordinator#membership`, `coordinator#fresh-snapshot`, `coordinator#process`, `coordinator#raft-library`.

Errors:

    LogError
    ├── NotLeaderError                not serving; nothing was proposed        -> FAILED_PRECONDITION, with the hint
    ├── UnavailableError              nothing was replicated, try again        -> UNAVAILABLE
    │   └── FrozenError               no proposals while the voters change (`coordinator#expand`)
    ├── CommandOutcomeUnknownError    it may still commit                      -> UNAVAILABLE, and say so (`coordinator#write-outcomes`)
    ├── TooLargeError                 a command above 256 KiB                  -> INVALID_ARGUMENT
    ├── UnknownPeerError              a (node id, address) outside the peers   -> INVALID_ARGUMENT
    └── FatalLogError                 the process has to end with this exit code
        ├── DamagedDirectoryError     71, names the file; never start, never wipe
        └── LogDiskError              74, memory would be ahead of the disk
"""

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from bigfleet.coordinator.core.batch import MAX_BATCH_BYTES
from bigfleet.model.errors import BigFleetError

# JSON objects. `Any`: the state machine defines their shape, the log only carries them.
Command = Mapping[str, Any]
Result = Mapping[str, Any]
Tables = Mapping[str, Any]

PROPOSE_TIMEOUT_S = 5.0


class RaftState(enum.StrEnum):
    """The values of `bigfleet-raft-state` (`coordinator#serving`); `serving` is a leader whose epoch is committed."""

    LEADER = "leader"
    SERVING = "serving"
    FOLLOWER = "follower"
    CANDIDATE = "candidate"
    LEARNER = "learner"
    UNFORMED = "unformed"


class Membership(enum.StrEnum):
    """The values of `bigfleet-membership`: no cluster yet, one voter, or all voters."""

    UNFORMED = "unformed"
    SOLO = "solo"
    FULL = "full"


class LogError(BigFleetError):
    """A call to the log failed."""


class NotLeaderError(LogError):
    """This replica is not the serving leader; nothing was proposed. The hint is the believed leader's gRPC address."""

    def __init__(self, hint: str | None = None) -> None:
        super().__init__(f"not the serving leader; {f'try {hint}' if hint else 'no leader is known'}")
        self.hint = hint


class UnavailableError(LogError):
    """The log takes no command now; nothing was replicated."""


class FrozenError(UnavailableError):
    """The log takes no proposals while the voters change (`coordinator#expand`)."""


class CommandOutcomeUnknownError(LogError):
    """The log gave no answer in time or lost leadership: the command may still commit."""


class TooLargeError(LogError):
    """A command is larger than a batch may be."""

    def __init__(self, size: int) -> None:
        super().__init__(f"command: found {size} bytes, allowed are at most {MAX_BATCH_BYTES}")
        self.size = size


class UnknownPeerError(LogError):
    """The pair of node id and Raft address is not one of this cluster's peers."""

    def __init__(self, node_id: str, raft_address: str, allowed: str) -> None:
        super().__init__(f"node {node_id} at {raft_address} is no peer; peers are {allowed}")
        self.node_id, self.raft_address = node_id, raft_address


class FatalLogError(LogError):
    """The log has failed for good; the process ends with this exit code."""

    exit_code: ClassVar[int] = 1


class DamagedDirectoryError(FatalLogError):
    """A file of the data directory is damaged or belongs to another replica; it is left unchanged."""

    exit_code = 71

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path, self.problem = path, problem


class LogDiskError(FatalLogError):
    """A write or sync failed; going on would leave memory ahead of the disk."""

    exit_code = 74


class StateMachine(Protocol):
    """The replicated tables; the log calls it on its own thread, one call at a time."""

    def apply(self, batch: str) -> str:
        """Apply one batch `{v, epoch, items}`, return a JSON list with one result per item.

        A result has `ok`; if that is false also `refusal` (a code of `coordinator#commands`) and `detail`. Never
        raises: bad JSON and a wrong epoch are refusals too. A text that is no batch gives one refusal.
        """

    def dump(self) -> Tables:
        """Return a copy of all tables for JSON; fast, because it blocks the log."""

    def load(self, tables: Tables) -> None:
        """Replace all tables, with the checks of commands; raises a BigFleetError on invalid tables."""

    @property
    def epoch(self) -> int:
        """The term of the last `begin_epoch` applied; 0 before the first."""


@dataclass(frozen=True, slots=True)
class PeerStatus:
    """One member as this replica sees it."""

    node_id: str
    grpc_address: str
    connected: bool


@dataclass(frozen=True, slots=True)
class LogStatus:
    """The state of this replica, read at one moment."""

    node_id: str
    state: RaftState
    leader: str | None
    """gRPC address of the believed leader; a hint, never a proof."""
    cluster_id: str
    membership: Membership
    term: int
    epoch: int
    """The last epoch applied to the tables, of any leader."""
    serving: int | None
    """The term this process won and serves; None unless it is the serving leader."""
    last_term: int
    last_index: int
    commit_index: int
    applied_index: int
    voters: tuple[str, ...] = ()
    peers: tuple[PeerStatus, ...] = ()
    waiting: tuple[str, ...] = ()
    """Why this replica is not ready: missing peers, no leader, not a voter yet. Empty when ready."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The tables, with index and term of the last entry applied to them."""

    tables: Tables
    index: int
    term: int


class ReplicatedLog(Protocol):
    """One replica's handle of the log; callers are on the asyncio loop."""

    async def start(self) -> None:
        """Start; returns before a cluster is formed, because peers ask this process while it waits. Raises FatalLogError."""

    async def propose(self, command: Command, *, timeout_s: float = PROPOSE_TIMEOUT_S) -> Result:
        """Commit one command and return its result; commands of many callers share a batch.

        A result with `ok` false was replicated and refused. Raises NotLeaderError, UnavailableError, CommandOutcomeUnknownError,
        TooLargeError.
        """

    async def barrier(self, *, timeout_s: float = PROPOSE_TIMEOUT_S) -> None:
        """Return once a majority has confirmed this serving leader after the call began; then local reads are current.

        Raises NotLeaderError, UnavailableError, CommandOutcomeUnknownError.
        """

    async def snapshot(self, *, timeout_s: float = PROPOSE_TIMEOUT_S) -> Snapshot:
        """Return the tables after a barrier (`coordinator#fresh-snapshot`)."""

    async def admit(self, node_id: str, raft_address: str) -> None:
        """Admit a learner, or confirm a member (`coordinator#calls`); raises UnknownPeerError, NotLeaderError."""

    def status(self) -> LogStatus:
        """Return the state of this replica; cheap, as every answer carries it."""

    def serving(self) -> int | None:
        """Return `status().serving`, at less cost."""

    def tick_age_s(self) -> float:
        """Return the time since the last tick of the log's own thread."""

    def on_serving(self, callback: Callable[[int], object]) -> None:
        """Call back on the loop with the epoch, before `status` first reports serving."""

    def on_lost(self, callback: Callable[[], object]) -> None:
        """Call back on the loop once serving has ended."""

    async def wait_failure(self) -> FatalLogError:
        """Return once the log has failed for good; the program ends with the error's exit code."""

    async def transfer_leadership(self) -> bool:
        """Transfer leadership to the most caught-up peer; False if this replica does not lead or no peer took over in time."""

    async def stop(self) -> None:
        """Stop; waiting calls get an error. May be called twice."""
