"""The replicated log as the rest of the coordinator sees it: propose, barrier, snapshot, status.

Why: the state machine and the RPC handlers must not know which log carries them, so that another one (etcd, say) can take
the place of pysyncobj without touching either.
The state machine of `bigfleet.coordinator.core` is handed in as a `StateMachine`.
Must never: import a Raft library, or promise more than the log can keep: a timeout is an unknown outcome, not a failure.
Rules: coordinator 2.2, 2.4, 3, 4.1, 9, 10.2, 11, 17.

Errors:

    LogError
    ├── NotLeaderError          not serving; nothing was proposed        -> FAILED_PRECONDITION, with the hint
    ├── UnavailableError        nothing was replicated, try again        -> UNAVAILABLE
    │   └── FrozenError         proposals are held while the voters change (9.5)
    ├── OutcomeUnknownError     it may still commit                      -> UNAVAILABLE, and say so (2.4)
    ├── TooLargeError           a command above 256 KiB                  -> INVALID_ARGUMENT
    ├── UnknownPeerError        a (node id, address) outside the peers   -> INVALID_ARGUMENT
    └── FatalLogError           the process has to end with this exit code
        ├── DamagedDirectoryError   71, names the file; never start, never wipe
        └── LogDiskError            74, memory would be ahead of the disk
"""

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from bigfleet.coordinator.core.batch import MAX_BATCH_BYTES
from bigfleet.model.errors import BigFleetError

# What JSON can say. `Any`, as the shape belongs to the state machine and the log only carries it.
Command = Mapping[str, Any]
Result = Mapping[str, Any]
Tables = Mapping[str, Any]

PROPOSE_TIMEOUT_S = 5.0


class RaftState(enum.StrEnum):
    """What `bigfleet-raft-state` says (4.1); `serving` is a leader whose epoch is committed."""

    LEADER = "leader"
    SERVING = "serving"
    FOLLOWER = "follower"
    CANDIDATE = "candidate"
    LEARNER = "learner"
    UNFORMED = "unformed"


class Membership(enum.StrEnum):
    """What `bigfleet-membership` says: no cluster yet, one voter, or all of them."""

    UNFORMED = "unformed"
    SOLO = "solo"
    FULL = "full"


class LogError(BigFleetError):
    """A call to the log did not end well."""


class NotLeaderError(LogError):
    """This replica does not serve; nothing was proposed. The hint is the believed leader's gRPC address."""

    def __init__(self, hint: str | None = None) -> None:
        super().__init__(f"not the serving leader; {f'try {hint}' if hint else 'no leader is known'}")
        self.hint = hint


class UnavailableError(LogError):
    """The log cannot take it now; nothing was replicated."""


class FrozenError(UnavailableError):
    """Proposals are held while the voters change (9.5)."""


class CommandOutcomeUnknownError(LogError):
    """No answer in time, or leadership was lost in between: the command may still commit."""


class TooLargeError(LogError):
    """One command is larger than a batch may be."""

    def __init__(self, size: int) -> None:
        super().__init__(f"command: found {size} bytes, allowed are at most {MAX_BATCH_BYTES}")
        self.size = size


class UnknownPeerError(LogError):
    """The pair of node id and Raft address is not one of this cluster's peers."""

    def __init__(self, node_id: str, raft_address: str, allowed: str) -> None:
        super().__init__(f"node {node_id} at {raft_address} is no peer; peers are {allowed}")
        self.node_id, self.raft_address = node_id, raft_address


class FatalLogError(LogError):
    """The log cannot go on; the process ends with this exit code."""

    exit_code: ClassVar[int] = 1


class DamagedDirectoryError(FatalLogError):
    """A file of the data directory is not what was written, or not of this replica; it is left as it is."""

    exit_code = 71

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path, self.problem = path, problem


class LogDiskError(FatalLogError):
    """Writing or syncing failed; going on would leave memory ahead of the disk."""

    exit_code = 74


class StateMachine(Protocol):
    """The tables and how commands change them; called on the thread of the log, one call at a time."""

    def apply(self, batch: str) -> str:
        """Apply one batch `{v, epoch, items}`, return a JSON list with one result per item.

        A result is an object with `ok`; where that is false also `refusal` (a code of 2.2) and `detail`. Never raises,
        whatever the text: bad JSON and a wrong epoch are refusals too. What cannot be split into items gives one refusal.
        """

    def dump(self) -> Tables:
        """Return a copy of all tables as a JSON-able value; cheap, as the log stands still meanwhile."""

    def load(self, tables: Tables) -> None:
        """Replace all tables by these, through the same mutators; raises a BigFleetError on anything that does not fit."""

    @property
    def epoch(self) -> int:
        """The term of the last `begin_epoch` applied; 0 before the first."""


@dataclass(frozen=True, slots=True)
class PeerStatus:
    """One member as this replica sees it."""

    node_id: str
    raft_address: str
    grpc_address: str
    connected: bool
    match_index: int | None = None
    """How far the leader knows it to be; None on other replicas."""


@dataclass(frozen=True, slots=True)
class LogStatus:
    """Where this replica stands, all read at one moment."""

    node_id: str
    state: RaftState
    leader: str | None
    """gRPC address of the believed leader; a hint, never a proof."""
    cluster_id: str
    membership: Membership
    term: int
    epoch: int
    """The last epoch applied to the tables, whoever owns it."""
    serving: int | None
    """The term this process won and now serves under; None unless it is the serving leader."""
    last_term: int
    last_index: int
    commit_index: int
    applied_index: int
    voters: tuple[str, ...] = ()
    peers: tuple[PeerStatus, ...] = ()
    waiting: tuple[str, ...] = ()
    """Why this replica is not ready, one reason each: missing peers, no leader, not a voter yet. Empty when ready."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The tables with the entry they stand at."""

    tables: Tables
    index: int
    term: int


class ReplicatedLog(Protocol):
    """One replica's handle of the log; every call is made on the asyncio loop."""

    async def start(self) -> None:
        """Begin; returns before a cluster is formed, as peers ask this process while it waits. Raises FatalLogError."""

    async def propose(self, command: Command, *, timeout_s: float = PROPOSE_TIMEOUT_S) -> Result:
        """Commit one command and return its result; commands of many callers share a batch.

        A result with `ok` false was replicated and refused. Raises NotLeaderError, UnavailableError, OutcomeUnknownError,
        TooLargeError.
        """

    async def barrier(self, *, timeout_s: float = PROPOSE_TIMEOUT_S) -> None:
        """Return once a majority has confirmed this serving leader after the call began; then local reads are current.

        Raises NotLeaderError, UnavailableError, OutcomeUnknownError.
        """

    async def snapshot(self, *, timeout_s: float = PROPOSE_TIMEOUT_S) -> Snapshot:
        """Return the tables behind a barrier, with the index and term they stand at (10.2)."""

    async def admit(self, node_id: str, raft_address: str) -> None:
        """Let a learner in, or confirm a member (4.3 JoinRaftCluster); raises UnknownPeerError, NotLeaderError."""

    def status(self) -> LogStatus:
        """Return where this replica stands; cheap, for every answer's trailing metadata."""

    def serving(self) -> int | None:
        """Return what `status` says about serving; cheaper, for every call that asks for nothing else."""

    def tick_age_s(self) -> float:
        """Return how long ago the log's own thread last showed a sign of life."""

    def on_serving(self, callback: Callable[[int], object]) -> None:
        """Call back on the loop with the epoch, before `status` first says serving; soft state is dropped here."""

    def on_lost(self, callback: Callable[[], object]) -> None:
        """Call back on the loop once serving ended, for whatever cause; soft state is dropped here."""

    async def wait_failure(self) -> FatalLogError:
        """Return when the log cannot go on; the program ends with the error's exit code."""

    async def transfer_leadership(self) -> bool:
        """Hand the leadership to the most caught-up peer; False if this replica does not lead or nobody took it in time."""

    async def stop(self) -> None:
        """End; whatever waits gets an error. Harmless when done before."""
