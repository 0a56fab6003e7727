"""Role gates: decorators that say which identities a method of a service lets in.

Why: who may call what is a table of the contract (`wire#identity`); written on the method itself it is visible
to a reader of the service.
A decorator above a gate runs before it, as "not leader" must.
Must never: look at an argument before the identity, except the id that the identity is compared with; check anything on
plaintext, by design of the original; let one role pass as another.
Rules: `wire#identity`, `coordinator#serving`, `coordinator#identity-gates`, `shard#session-opening`.
"""

import contextlib
import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar, cast

from bigfleet.aio.identity import SCHEME, Identity, Role
from bigfleet.aio.net import Call, Code, IdentityRefusedError, Peer, RpcRefusedError

Handler = TypeVar("Handler", bound=Callable[..., Any])  # Any: the shape of a handler depends on its RPC


def require(peer: Peer, *allowed: Identity) -> None:
    """Raise `IdentityRefusedError` unless the peer is one of those allowed, or the edge is plaintext."""
    if not peer.secured or peer.identity in allowed:
        return
    presented = str(peer.identity) if peer.identity else peer.problem
    raise IdentityRefusedError(f"this call is for {' or '.join(map(str, allowed))}; presented: {presented}")


def require_role(peer: Peer, role: Role, id_: str = "") -> None:
    """Raise `IdentityRefusedError` unless the peer has the role, and the id if one is given, or the edge is plaintext."""
    who = peer.identity
    if not peer.secured or (who is not None and who.role is role and id_ in ("", who.id)):
        return
    presented = str(who) if who else peer.problem
    raise IdentityRefusedError(f"this call is for {SCHEME}{role}/{id_ or '<id>'}; presented: {presented}")


def allow(*identities: Identity) -> Callable[[Handler], Handler]:
    """Let in exactly these identities. For every kind of method."""

    def decorate(handler: Handler) -> Handler:
        return _guarded(handler, lambda _request, call: require(call.peer, *identities))

    return decorate


def allow_exact(role: Role, id_of: Callable[[Any], str]) -> Callable[[Handler], Handler]:
    """Let in exactly the holder of the id that the request names. For unary methods and server streams."""

    def decorate(handler: Handler) -> Handler:
        return _guarded(handler, lambda request, call: _require_holder(call.peer, role, id_of(request)))

    return decorate


def _require_holder(peer: Peer, role: Role, id_: str) -> None:
    if not peer.secured:
        return
    if not id_:
        raise RpcRefusedError(Code.INVALID_ARGUMENT, f"the {role} id is empty")
    # Compared part by part: the id comes from the request and may be one that no certificate can carry.
    if peer.identity is None or (peer.identity.role, peer.identity.id) != (role, id_):
        presented = str(peer.identity) if peer.identity else peer.problem
        raise IdentityRefusedError(f"this call is for {SCHEME}{role}/{id_}; presented: {presented}")


def _guarded(handler: Handler, check: Callable[[Any, Call], None]) -> Handler:
    if inspect.isasyncgenfunction(handler):

        @functools.wraps(handler)
        async def stream_gate(self: object, request: object, call: Call) -> AsyncIterator[Any]:
            check(request, call)
            async with contextlib.aclosing(handler(self, request, call)) as answers:
                async for answer in answers:
                    yield answer

        return cast("Handler", stream_gate)

    @functools.wraps(handler)
    async def gate(self: object, request: object, call: Call) -> object:
        check(request, call)
        return await cast("Awaitable[object]", handler(self, request, call))

    return cast("Handler", gate)
