"""Builds a roll-up from all requests of the cache at each interval.

Must never: block the event loop for long, wait for a status write, or build from an incomplete cache.
Rules: `operator#demand`; ADR-0027, ADR-0039.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Final, NoReturn

import structlog

from bigfleet.aio.clock import Clock, monotonic_s
from bigfleet.aio.net import MAX_MESSAGE_BYTES
from bigfleet.kube.event_reasons import NOT_REPORTED
from bigfleet.kube.resources import ObjectKey
from bigfleet.model.errors import BigFleetError
from bigfleet.obs.metrics import Metrics, timed
from bigfleet.operator.acknowledge import Acknowledger
from bigfleet.operator.caches import OperatorCaches
from bigfleet.operator.core.contribution import Contribution
from bigfleet.operator.core.request_status import RequestView
from bigfleet.operator.core.rollup import RollupBuilder
from bigfleet.operator.session.uplink import PreparedRollup, Uplink
from bigfleet.wire.operator_frames import RollupWriter

_REQUESTS_PER_TURN: Final = 4_000
_ROWS_PER_TURN: Final = 250


class RollupTooLargeError(BigFleetError):
    """The demand does not fit into one frame; the shard keeps the last roll-up."""

    def __init__(self, size: int) -> None:
        super().__init__(f"the roll-up has {size} bytes, allowed is {MAX_MESSAGE_BYTES}")
        self.size = size


class RollupLoop:
    """Builds the roll-ups of one cluster."""

    def __init__(
        self,
        cluster: str,
        caches: OperatorCaches,
        acknowledger: Acknowledger,
        *,
        clock: Clock,
        metrics: Metrics,
        interval_s: float,
    ) -> None:
        self._cluster, self._caches, self._acknowledger = cluster, caches, acknowledger
        self._clock, self._metrics, self._interval_s = clock, metrics, interval_s
        self.fingerprints: frozenset[str] = frozenset()
        """The profiles of the newest roll-up; hints for other profiles are of no use."""
        self._log = structlog.get_logger("bigfleet.operator")

    async def run(self, uplink: Uplink) -> NoReturn:
        """Build a roll-up now and at each interval, for one session; a failed one is logged and the next replaces it."""
        while True:
            began_s = monotonic_s(self._clock)
            try:
                await self._tick(uplink)
            except BigFleetError as error:
                self._log.error("rollup_failed", error=str(error))
            left_s = self._interval_s - (monotonic_s(self._clock) - began_s)
            await self._clock.sleep(max(left_s, 0.0))

    async def _tick(self, uplink: Uplink) -> None:
        with timed(self._clock, self._metrics.histogram("bigfleet_operator_rollup_duration_seconds")):
            with self._phase("list"):
                requests = self._caches.requests.snapshot()
            with self._phase("build"):
                prepared = await self._build(requests)
            with self._phase("enqueue"):
                uplink.offer_rollup(prepared)

    def _phase(self, name: str) -> AbstractContextManager[None]:
        return timed(
            self._clock,
            self._metrics.histogram("bigfleet_operator_rollup_phase_duration_seconds", phase=name),
        )

    async def _build(self, requests: Mapping[ObjectKey, RequestView]) -> PreparedRollup:
        builder, skipped = RollupBuilder(), dict.fromkeys(NOT_REPORTED, 0)
        pending: dict[ObjectKey, RequestView] = {}
        for number, (key, view) in enumerate(requests.items(), 1):
            if isinstance(view.found, Contribution):
                builder.add(view.found)
                if view.wants_acknowledgement:
                    pending[key] = view
            else:
                skipped[view.found.reason] += 1
                if view.wants_refusal:
                    self._acknowledger.refuse(key, view)
            if number % _REQUESTS_PER_TURN == 0:
                await self._clock.sleep(0)
        writer, fingerprints = RollupWriter(self._cluster, self._clock.wall_ns()), set()
        for number, row in enumerate(builder.rows(), 1):
            writer.add(row.profile, row.total, row.unit, row.group)
            fingerprints.add(row.profile.fingerprint)
            if number % _ROWS_PER_TURN == 0:
                await self._clock.sleep(0)
        self.fingerprints = frozenset(fingerprints)
        for reason, count in skipped.items():
            self._metrics.gauge("bigfleet_operator_capacity_requests_skipped", reason=reason).set(count)
        frame = writer.frame()
        if len(frame) > MAX_MESSAGE_BYTES:
            # If sent, it would end this session and every later one.
            raise RollupTooLargeError(len(frame))
        return PreparedRollup(frame, len(builder), lambda: self._acknowledger.acknowledge(pending))
