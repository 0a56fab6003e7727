"""Calls to the coordinator's leader, wherever it is: follow the hint once, walk every address, then back off.

Why: every replica answers, only the leader serves, and who leads changes; without this a follower's answer would cost a
shard its report interval.
Must never: repeat a call that may have taken effect. FAILED_PRECONDITION says it has not; a connection that could not
be made says so too, unless the answer got lost with it, which is why every command may be repeated
(`coordinator#write-outcomes`). Never trust a hint further than TLS does: the hinted replica is verified like any other.
Rules: `coordinator#serving`, `coordinator#shard-client`, `coordinator#self-registration`.

    async with LeaderClient(net, ("coordinator.example:7790",), resolve=system_resolve) as leader:
        reply = await leader.unary(REPORT_SHARD, report, timeout_s=5.0)
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final, Self, TypeVar

from bigfleet.aio.backoff import Backoff
from bigfleet.aio.clock import Clock, monotonic_s
from bigfleet.aio.net import Channel, Code, DialOptions, Net, RpcError, RpcReply
from bigfleet.aio.service import ServerStreamMethod, UnaryMethod
from bigfleet.model.errors import BigFleetError
from bigfleet.transport.address import join, parse_listen
from bigfleet.transport.coordinator import facts_of

Request = TypeVar("Request")
Response = TypeVar("Response")
T = TypeVar("T")

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Takes host and port, returns the IP addresses behind the name; nothing for a name that does not resolve."""

_FOLLOWER_CODES: Final = frozenset({Code.FAILED_PRECONDITION})


class NoLeaderError(BigFleetError):
    """Every address was asked and none serves; carries the answer of each."""

    def __init__(self, asked: Sequence[tuple[str, RpcError]]) -> None:
        heard = "; ".join(f"{target}: {_said(error)}" for target, error in asked) or "no address resolved"
        super().__init__(f"no leader found: {heard}")
        self.asked = tuple(asked)

    @property
    def reachable(self) -> bool:
        """Whether any replica answered at all."""
        return any(_answered(error) for _, error in self.asked)


class LeaderClient:
    """A client of the leading replica; remembers the last one that answered."""

    def __init__(self, net: Net, addresses: Sequence[str], *, resolve: Resolve) -> None:
        self._net, self._addresses, self._resolve = net, tuple(addresses), resolve
        self._channels: dict[tuple[str, str], Channel] = {}
        self._leader: tuple[str, str] | None = None

    async def unary(
        self, method: UnaryMethod[Request, Response], request: Request, *, timeout_s: float
    ) -> RpcReply[Response]:
        """Ask the leader once; `timeout_s` is for each attempt. `NoLeaderError` once every address was asked in vain.

        Any other refusal is the leader's own and is raised as it came.
        """

        async def attempt(channel: Channel) -> RpcReply[Response]:
            return await channel.unary(method, request, timeout_s=timeout_s)

        return await self._somewhere(attempt)

    async def server_stream(
        self, method: ServerStreamMethod[Request, Response], request: Request
    ) -> AsyncIterator[Response]:
        """Stream from the leader, without a deadline; only the first message decides whether an address serves."""

        async def attempt(channel: Channel) -> tuple[Channel, Response | None, AsyncIterator[Response]]:
            responses = channel.server_stream(method, request, timeout_s=None)
            return channel, await responses.receive(), aiter(responses)

        _, first, rest = await self._somewhere(attempt)
        if first is not None:
            yield first
            async for message in rest:
                yield message

    async def patiently(
        self, call: Callable[[], Awaitable[T]], *, clock: Clock, backoff: Backoff, patience_s: float
    ) -> T:
        """Repeat a call in growing intervals while there is no leader, as during an election, for so long at most."""
        give_up_s = monotonic_s(clock) + patience_s
        while True:
            try:
                return await call()
            except NoLeaderError:
                wait_s = backoff.next_s()
                if monotonic_s(clock) + wait_s > give_up_s:
                    raise
                await clock.sleep(wait_s)

    async def targets(self) -> list[tuple[str, str]]:
        """Return every address the configured names resolve to, each with the name its certificate must carry."""
        found: dict[tuple[str, str], None] = {}
        for address in self._addresses:
            place = parse_listen(address, "coordinator address")
            for ip in await self._resolve(place.host, place.port) or (place.host,):
                found[join(ip, place.port), place.host if ip != place.host else ""] = None
        return list(found)

    async def ask_one(
        self,
        target: tuple[str, str],
        method: UnaryMethod[Request, Response],
        request: Request,
        *,
        timeout_s: float,
    ) -> RpcReply[Response] | RpcError:
        """Ask one replica, leader or not; its refusal is an answer too, as it carries the replica's state."""
        try:
            return await self._channel(target).unary(method, request, timeout_s=timeout_s)
        except RpcError as error:
            return error

    async def close(self) -> None:
        """Close every connection."""
        channels, self._channels = list(self._channels.values()), {}
        for channel in channels:
            await channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.close()

    async def _somewhere(self, attempt: Callable[[Channel], Awaitable[T]]) -> T:
        asked: dict[str, RpcError] = {}
        queue = [self._leader] if self._leader is not None else []
        hinted = walked = False
        while queue or not walked:
            if not queue:
                walked, queue = True, await self.targets()
                continue
            target = queue.pop(0)
            if target[0] in asked:
                continue
            try:
                answer = await attempt(self._channel(target))
            except RpcError as error:
                if error.code is Code.DEADLINE_EXCEEDED:
                    self._leader = None  # it may hang; the next call begins with another replica
                if not _elsewhere(error):
                    raise
                asked[target[0]] = error
                hint = facts_of(error.trailing).leader
                if hint is not None and not hinted:
                    hinted = True
                    queue.insert(0, (hint, ""))
                continue
            self._leader = target
            return answer
        self._leader = None
        raise NoLeaderError(list(asked.items()))

    def _channel(self, target: tuple[str, str]) -> Channel:
        channel = self._channels.get(target)
        if channel is None:
            channel = self._net.dial(target[0], DialOptions(server_name=target[1]))
            self._channels[target] = channel
        return channel


def _elsewhere(error: RpcError) -> bool:
    """Whether another address may do better: a follower answered, or no replica did."""
    return error.code in _FOLLOWER_CODES or (error.code is Code.UNAVAILABLE and not _answered(error))


def _answered(error: RpcError) -> bool:
    # Our replicas put facts on every answer; those of the original do not, but only a leader of theirs says UNAVAILABLE.
    return bool(facts_of(error.trailing).raft_state) or error.code is not Code.UNAVAILABLE


def _said(error: RpcError) -> str:
    state = facts_of(error.trailing).raft_state
    return f"{state}" if state else error.detail or error.code.name
