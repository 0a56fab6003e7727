"""What a lie may do: change a request on its way in, an answer on its way out, or answer in the honest provider's place.

Why: a lie is a wrapper around the honest service and nothing else; the truth below goes on, and `honest` brings it back.
Must never: change what the honest provider knows. Exceptions are the lies about making machines and about readiness.
Rules: providers 5.4.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from bigfleet.aio.net import Call, Code, RefusedError
from bigfleet.aio.rng import RandomStream
from bigfleet.model.errors import InvalidFieldError
from bigfleet.provider.contract import OperationKind
from bigfleet.v1alpha1 import provider_pb2 as pb

MUTATING: Final = tuple(kind.call for kind in OperationKind)


@dataclass(slots=True)
class InterceptedCall:
    """One call on its way; a lie may put another request in its place."""

    rpc: str
    request: Any  # one of the six request messages, as `rpc` says
    call: Call

    @property
    def mutating(self) -> bool:
        return self.rpc in MUTATING

    @property
    def machine_id(self) -> str:
        """The machine it is about; none for List."""
        if self.rpc == "List":
            return ""
        return str(self.request.id if self.rpc == "Get" else self.request.machine_id)

    def without_token(self) -> None:
        """Take the fencing token away, so that the honest provider does not look at it."""
        bare = type(self.request)()
        bare.CopyFrom(self.request)
        bare.shard_id, bare.shard_epoch, bare.sequence_number = "", 0, 0
        self.request = bare


@dataclass(frozen=True, slots=True)
class HonestProvider:
    """What a lie may know of the honest provider."""

    now_s: Callable[[], float]
    head: Callable[[], int]
    """The present revision."""
    everything: Callable[[], bytes]
    """A full listing."""
    admit: Callable[[str], Awaitable[None]]
    """Make a slot of this id, which nobody knew."""
    starts: Callable[[], int]
    """How often the provider was started; changes with every restart."""


class Lie:
    """One lie that is being told. The hooks do nothing; each lie has its own."""

    name: ClassVar[str]
    usual: ClassVar[float] = 1.0
    """The number it is told with where none is given: a share, for most."""
    limit: ClassVar[float] = 1.0
    on_acks: ClassVar[bool] = False
    on_records: ClassVar[bool] = False
    """Whether `record` wants to see the machine of acks and Gets and every machine of a listing."""
    on_lists: ClassVar[bool] = False

    def __init__(self, share: float, stream: RandomStream, provider: HonestProvider) -> None:
        self.share, self._stream, self._provider = share, stream, provider

    def hits(self) -> bool:
        """Draw whether the lie is told this time."""
        return self.share >= 1 or self._stream.random() < self.share

    def before(self, intercepted: InterceptedCall, /) -> None:
        """See a call before the honest provider does; may change it, or raise a refusal."""

    async def refused(self, _asked: InterceptedCall, refusal: RefusedError, /) -> RefusedError | None:
        """See a refusal; return the one to give, None to ask the honest provider once more."""
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
    """Return the number a lie is told with, or refuse it."""
    if share is None:
        return lie.usual
    if not 0 <= share <= lie.limit:
        raise InvalidFieldError(f"lie {lie.name}", share, f"a number from 0 to {lie.limit:g}")
    return share


def fenced(intercepted: InterceptedCall) -> RefusedError:
    """Return the refusal that means "fenced" and nothing else."""
    where = f"{intercepted.rpc} {intercepted.machine_id}".strip()
    return RefusedError(Code.FAILED_PRECONDITION, f"{where}: the token is not newer than one already seen")
