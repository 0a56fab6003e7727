"""Applies the active lies around the honest service, in the order in which they were turned on.

Must never: decode an answer that no active lie changes; a full listing may be hundreds of megabytes.
Rules: `providers#lies`.
"""

from collections.abc import Awaitable, Callable

from bigfleet.aio.net import RpcRefusedError
from bigfleet.aio.rng import Rng
from bigfleet.provider.fake.lies.lie import HonestProvider, InterceptedCall, Lie, checked_share
from bigfleet.provider.fake.lies.registry import lie_named
from bigfleet.v1alpha1 import provider_pb2 as pb

Honest = Callable[[InterceptedCall], Awaitable[bytes]]

_ASKED_AGAIN = 1


class ActiveLies:
    """The lies that are turned on."""

    def __init__(self, rng: Rng, provider: HonestProvider) -> None:
        self._rng, self._provider = rng, provider
        self._active: dict[str, Lie] = {}

    @property
    def shares(self) -> dict[str, float]:
        """The share, or other number, of each active lie."""
        return {name: lie.share for name, lie in self._active.items()}

    def tell(self, name: str, share: float | None = None) -> None:
        """Turn a lie on, or change its number."""
        lie = lie_named(name)
        number = checked_share(lie, share)
        self._active[name] = lie(number, self._rng.stream(f"lie/{name}"), self._provider)

    def stop(self, name: str = "") -> None:
        """Turn off one lie, or all."""
        if name:
            self._active.pop(lie_named(name).name, None)
        else:
            self._active.clear()

    def tells(self, name: str) -> bool:
        """Draw whether a lie applies this time, for lies that another module carries out."""
        return name in self._active and self._active[name].hits()

    async def answer(self, intercepted: InterceptedCall, honest: Honest) -> bytes:
        """Answer a call with every active lie."""
        lies = tuple(self._active.values())
        for lie in lies:
            lie.before(intercepted)
        answer = await self._call_honest(intercepted, honest, lies)
        match intercepted.rpc:
            case "Get":
                return _record(answer, lies)
            case "List":
                return _listing(intercepted, answer, lies, self._provider)
        return _ack(intercepted, answer, lies)

    async def _call_honest(
        self, intercepted: InterceptedCall, honest: Honest, lies: tuple[Lie, ...]
    ) -> bytes:
        for _ in range(_ASKED_AGAIN):
            try:
                return await honest(intercepted)
            except RpcRefusedError as error:
                refusal: RpcRefusedError | None = error
                for lie in lies:
                    if refusal is not None:
                        refusal = await lie.refused(intercepted, refusal)
                if refusal is not None:
                    raise refusal from None
        return await honest(intercepted)


def _ack(intercepted: InterceptedCall, answer: bytes, lies: tuple[Lie, ...]) -> bytes:
    telling = [lie for lie in lies if lie.on_acks or lie.on_records]
    if not telling:
        return answer
    ack = pb.TransitionAck.FromString(answer)
    for lie in telling:
        lie.ack(intercepted, ack)
    # An answer to the call that made a machine stuck still shows what was accepted.
    for lie in telling:
        if lie.on_records and not lie.on_acks and lie.hits():
            lie.record(ack.machine)
    return ack.SerializeToString(deterministic=True)


def _record(answer: bytes, lies: tuple[Lie, ...]) -> bytes:
    telling = [lie for lie in lies if lie.on_records]
    if not telling:
        return answer
    machine = pb.Machine.FromString(answer)
    for lie in telling:
        if lie.on_acks or lie.hits():  # a lie that began in an ack applies to every later record
            lie.record(machine)
    return machine.SerializeToString(deterministic=True)


def _listing(
    intercepted: InterceptedCall, answer: bytes, lies: tuple[Lie, ...], provider: HonestProvider
) -> bytes:
    if any(lie.on_records or lie.on_lists for lie in lies):
        listing = pb.MachineList.FromString(answer)
        for lie in lies:
            if lie.on_lists:
                lie.listing(intercepted, listing)
            if lie.on_records:
                for machine in listing.machines:
                    if lie.on_acks or lie.hits():
                        lie.record(machine)
        answer = listing.SerializeToString(deterministic=True)
        revision = listing.revision
    else:
        revision = b"%d" % provider.head()
    lied = revision
    for lie in lies:
        lied = lie.revision(lied)
    return answer if lied == revision else with_revision(answer, lied)


def with_revision(answer: bytes, revision: bytes) -> bytes:
    """Return an encoded listing with another revision; in protobuf the last value of a field counts."""
    size = len(revision)
    length = bytes((size,)) if size < 0x80 else bytes((size & 0x7F | 0x80, size >> 7))
    return b"".join((answer, b"\x12", length, revision))
