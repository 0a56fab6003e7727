"""Calls of `bigfleetctl` to the leader, and the exit codes of their failures.

Why: every verb finds the leader, waits for an election and reports errors in the same way.
Must never: print more than one line for a failure, or report an unknown outcome as a failure without saying so.
Rules: `coordinator#serving`, `coordinator#bigfleetctl`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from bigfleet.aio.backoff import Backoff, BackoffPolicy
from bigfleet.aio.clock import SystemClock
from bigfleet.aio.net import Code, RpcError
from bigfleet.aio.rng import SystemRng
from bigfleet.aio.service import UnaryMethod
from bigfleet.cli.bigfleetctl.settings import CtlFlags, target_of
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.errors import CommandError
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.model.errors import BigFleetError
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.leader import LeaderClient, NoLeaderError
from bigfleet.transport.resolve import system_resolve
from bigfleet.transport.tls import TlsFiles, TlsStore

T = TypeVar("T")

_CODES: Final = {
    Code.FAILED_PRECONDITION: ExitCode.REFUSED,
    Code.INVALID_ARGUMENT: ExitCode.USAGE,
    Code.NOT_FOUND: ExitCode.NOT_FOUND,
    Code.ALREADY_EXISTS: ExitCode.EXISTS,
    Code.PERMISSION_DENIED: ExitCode.PERMISSION,
    Code.UNAUTHENTICATED: ExitCode.PERMISSION,
    Code.UNAVAILABLE: ExitCode.UNAVAILABLE,
    Code.DEADLINE_EXCEEDED: ExitCode.UNAVAILABLE,
}
_NO_HINTS: Final[Mapping[Code, str]] = {}
_BETWEEN_ROUNDS: Final = BackoffPolicy(first_s=0.3, ceiling_s=2.0)


@dataclass(frozen=True, slots=True)
class LeaderConnection:
    """The connection of one verb to the leader."""

    leader: LeaderClient
    timeout_s: float

    async def call(self, method: UnaryMethod[Any, T], request: object) -> T:
        """Call the leader, after waiting for an election for at most the timeout of one call."""

        async def once() -> T:
            reply = await self.leader.unary(method, request, timeout_s=self.timeout_s)
            return reply.message

        clock, rng = SystemClock(), SystemRng()
        backoff = Backoff(rng.stream("bigfleetctl"), _BETWEEN_ROUNDS)
        return await self.leader.patiently(once, clock=clock, backoff=backoff, patience_s=self.timeout_s)


def run_with(
    settings: CtlFlags,
    console: Console,
    verb: Callable[[LeaderConnection], Awaitable[int]],
    *,
    hints: Mapping[Code, str] = _NO_HINTS,
) -> int:
    """Run a verb against the coordinator of the flags; every failure becomes an exit code.

    `hints` are added to errors with these codes.
    """
    target = target_of(settings, console.environ)
    try:
        tls = None if target.tls is None else TlsStore(TlsFiles(*target.tls), _ignore, console.print_warning)
    except (BigFleetError, OSError, ValueError) as error:
        raise CommandError(f"TLS files: {error}", ExitCode.USAGE) from error

    async def go() -> int:
        async with LeaderClient(GrpcNet(tls), target.addresses, resolve=system_resolve) as leader:
            return await verb(LeaderConnection(leader, settings.timeout))

    try:
        return asyncio.run(go())
    except NoLeaderError as error:
        code = ExitCode.REFUSED if error.reachable else ExitCode.UNAVAILABLE
        hint = "bigfleetctl status shows the state of each replica"
        if not error.reachable:
            hint = "are the replicas up, and is --coordinator right?"
        raise CommandError(f"{error}; {hint}", code) from error
    except RpcError as error:
        detail = error.detail
        if error.code is Code.DEADLINE_EXCEEDED:
            detail = f"no answer within {settings.timeout:g} s; the outcome is unknown"
        elif error.code in hints:
            detail = f"{detail}; {hints[error.code]}"
        raise CommandError(detail or error.code.name, _CODES.get(error.code, ExitCode.FAILURE)) from error


def _ignore(_problem: str) -> None:
    """Ignore problems with a certificate that changes during one call."""
