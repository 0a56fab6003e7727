"""The base class of lies, which change requests, answers or refusals of the honest service.

Must never: change the state of the honest provider; exceptions are the lies about creating machines and about readiness.
Rules: `providers#lies`.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from bigfleet.aio.net import Call, Code, RpcRefusedError
from bigfleet.aio.rng import RandomStream
from bigfleet.model.errors import InvalidFieldError
from bigfleet.provider.contract import OperationKind
from bigfleet.v1alpha1 import provider_pb2 as pb

MUTATING: Final = tuple(kind.call for kind in OperationKind)


@dataclass(slots=True)
class InterceptedCall:
    """One call in progress; a lie may replace its request."""

    rpc: str
    request: Any  # one of the six request messages, as `rpc` says
    call: Call

    @property
    def mutating(self) -> bool:
        return self.rpc in MUTATING

    @property
    def machine_id(self) -> str:
        """The machine of the call; empty for List."""
        if self.rpc == "List":
            return ""
        return str(self.request.id if self.rpc == "Get" else self.request.machine_id)

    def without_token(self) -> None:
        """Remove the fencing token, so that the honest provider does not check it."""
        bare = type(self.request)()
        bare.CopyFrom(self.request)
        bare.shard_id, bare.shard_epoch, bare.sequence_number = "", 0, 0
        self.request = bare


@dataclass(frozen=True, slots=True)
class HonestProvider:
    """What a lie may read of the honest provider."""

    now_s: Callable[[], float]
    head: Callable[[], int]
    """The present revision."""
    everything: Callable[[], bytes]
    """A full listing."""
    admit: Callable[[str], Awaitable[None]]
    """Add a machine with this unknown id."""
    starts: Callable[[], int]
    """How often the provider was started; changes with every restart."""


class Lie:
    """One active lie; subclasses override the methods they need."""

    name: ClassVar[str]
    usual: ClassVar[float] = 1.0
    """The default number: a share, for most lies."""
    limit: ClassVar[float] = 1.0
    on_acks: ClassVar[bool] = False
    on_records: ClassVar[bool] = False
    """Whether `record` is called with the machine of acks and Gets and every machine of a listing."""
    on_lists: ClassVar[bool] = False

    def __init__(self, share: float, stream: RandomStream, provider: HonestProvider) -> None:
        self.share, self._stream, self._provider = share, stream, provider
        self.start()

    def start(self) -> None:
        """Set up what the lie remembers between calls."""

    def hits(self) -> bool:
        """Draw whether the lie applies this time."""
        return self.share >= 1 or self._stream.random() < self.share

    def before(self, intercepted: InterceptedCall, /) -> None:
        """Change a call before the honest provider gets it, or raise a refusal."""

    async def refused(self, _asked: InterceptedCall, refusal: RpcRefusedError, /) -> RpcRefusedError | None:
        """Return the refusal to send, None to call the honest provider again."""
        return refusal

    def ack(self, intercepted: InterceptedCall, ack: pb.TransitionAck, /) -> None:
        """Change the answer to a mutating call."""

    def record(self, machine: pb.Machine, /) -> None:
        """Change a record wherever it is shown."""

    def listing(self, intercepted: InterceptedCall, listing: pb.MachineList, /) -> None:
        """Change a listing."""

    def revision(self, revision: bytes, /) -> bytes:
        """Change the revision of a listing."""
        return revision


def checked_share(lie: type[Lie], share: float | None) -> float:
    if share is None:
        return lie.usual
    if not 0 <= share <= lie.limit:
        raise InvalidFieldError(f"lie {lie.name}", share, f"a number from 0 to {lie.limit:g}")
    return share


def fenced(intercepted: InterceptedCall) -> RpcRefusedError:
    """Return the refusal that means "fenced" and nothing else."""
    where = f"{intercepted.rpc} {intercepted.machine_id}".strip()
    return RpcRefusedError(Code.FAILED_PRECONDITION, f"{where}: the token is not newer than one already seen")
