"""Runs sessions one after another with back-off, for the life of the process.

Why: the shard may be away for hours, and a fleet of operators must not overload it when it returns.
Must never: end because a peer refused us: a certificate may be repaired in place.
Rules: `operator#reconnect-delays`, `shard#tls`.
"""

from collections.abc import Callable
from typing import Final, NoReturn

import structlog

from bigfleet.aio.backoff import Attempt, Backoff, keep_connected
from bigfleet.aio.clock import Clock
from bigfleet.aio.identity import Identity, Role
from bigfleet.aio.net import Code, RpcError
from bigfleet.aio.rng import RandomStream
from bigfleet.obs.metrics import Metrics
from bigfleet.operator.options import OperatorOptions
from bigfleet.operator.session.session import SessionState, ShardSession

# Words in the text of UNAVAILABLE when the TLS handshake failed, not the network.
_TLS_WORDS: Final = ("ssl", "tls", "certificate", "handshake")


async def keep_sessions(
    options: OperatorOptions,
    make_session: Callable[[], ShardSession],
    state: SessionState,
    *,
    clock: Clock,
    stream: RandomStream,
    metrics: Metrics,
) -> NoReturn:
    """Run sessions until cancelled."""
    log = structlog.get_logger("bigfleet.operator")
    backoff = Backoff(stream, options.backoff)

    async def one(attempt: Attempt) -> None:
        try:
            await make_session().run(attempt)
        except RpcError as error:
            if error.code is Code.ABORTED:  # a newer session of this cluster took over
                attempt.taken_over()
            if _needs_repair(error):
                backoff.lengthen()
                expected = Identity(Role.CLUSTER, options.cluster)
                log.error("session_refused", error=str(error), expected_identity=str(expected))
            raise

    def ended(error: Exception | None, wait_s: float) -> None:
        why = str(error) if error is not None else "closed"
        state.ended(why)
        metrics.counter("bigfleet_operator_session_reconnects_total").inc()
        log.warning("session_ended", why=why, wait_s=round(wait_s, 3))

    await keep_connected(one, clock=clock, backoff=backoff, on_ended=ended)


def _needs_repair(error: RpcError) -> bool:
    if error.code is Code.PERMISSION_DENIED:
        return True
    return error.code is Code.UNAVAILABLE and any(word in error.detail.lower() for word in _TLS_WORDS)
