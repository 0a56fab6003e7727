"""Ends sessions in time: when the operator's certificate ends, and at a greatest age.

Why: a certificate is checked when a connection is made, and a session may outlive it by months; revoking works by not renewing.
Must never: end all sessions at once, or for its age a session whose operator is about to answer a request.
Rules: `shard#session-age`; ADR-0234.
"""

from typing import Final

from bigfleet.aio.clock import NANOSECONDS, Clock, monotonic_s
from bigfleet.aio.net import Code, RpcRefusedError
from bigfleet.aio.rng import RandomStream
from bigfleet.obs.metrics import Metrics
from bigfleet.shard.session.operator_session import OperatorSession

ANSWERS_WITHIN_S: Final = 60.0
"""How much longer a session may live while requests wait for its operator, twice what a request may wait."""
_SCATTER: Final = 0.2
"""The part of the greatest age by which sessions end earlier, each by another: those that opened together end apart."""
_AT_LEAST_S: Final = 0.01
"""Else a wait shorter than the clock can tell would be asked for again and again."""
_LOOKED_AT_S: Final = 300.0
"""How often the wall clock is looked at, as it may be set while a session lives."""


class SessionLife:
    """How long sessions may last."""

    def __init__(self, max_age_s: float, *, clock: Clock, stream: RandomStream, metrics: Metrics) -> None:
        """0 for sessions of any age."""
        self._max_age_s, self._clock, self._stream, self._metrics = max_age_s, clock, stream, metrics

    async def run(self, session: OperatorSession, certificate_ends_ns: int | None) -> None:
        """End the session when it has to; returns early where neither bound exists."""
        began_s = monotonic_s(self._clock)
        age_s = self._max_age_s * (1 - _SCATTER * self._stream.random()) if self._max_age_s else None
        while age_s is not None or certificate_ends_ns is not None:
            certificate_s = self._left_s(certificate_ends_ns)
            if certificate_s is not None and certificate_s <= 0:
                self._metrics.counter("bigfleet_shard_sessions_expired_total", reason="certificate").inc()
                session.end(
                    RpcRefusedError(Code.UNAUTHENTICATED, "the certificate of this session has ended")
                )
                return
            lived_s = monotonic_s(self._clock) - began_s
            due_s = None if age_s is None else age_s - lived_s
            if due_s is not None and due_s <= 0:
                if not session.awaits_answers or due_s <= -ANSWERS_WITHIN_S:
                    self._metrics.counter("bigfleet_shard_sessions_expired_total", reason="age").inc()
                    session.end(RpcRefusedError(Code.UNAVAILABLE, "the session has reached its greatest age"))
                    return
                due_s = 1.0
            waits = (each for each in (certificate_s, due_s, _LOOKED_AT_S) if each is not None)
            await self._clock.sleep(max(_AT_LEAST_S, min(waits)))

    def _left_s(self, ends_ns: int | None) -> float | None:
        return None if ends_ns is None else (ends_ns - self._clock.wall_ns()) / NANOSECONDS
