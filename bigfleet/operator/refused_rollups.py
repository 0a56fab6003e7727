"""Tells the people of a cluster that its demand was refused as a whole, and why.

Why: after a refusal the shard goes on with the demand that it accepted last. New pods then wait for ever, and nothing in
their cluster would show why.
Must never: write to each of ten thousand requests, or for each roll-up while the reason stays.
Rules: `operator#refused-roll-up`, `wire#acknowledgements`; ADR-0237.
"""

import re
from collections.abc import Callable, Iterable
from typing import Final

import structlog

from bigfleet.aio.clock import Clock, monotonic_s
from bigfleet.kube.event_reasons import ROLLUP_REFUSED
from bigfleet.kube.events import EventRecorder, ObjectReference
from bigfleet.kube.resources import CAPACITY_REQUESTS, ObjectKey
from bigfleet.model.errors import cut
from bigfleet.obs.metrics import Metrics
from bigfleet.operator.core.refusal import RollupRefusal
from bigfleet.operator.core.request_status import RequestView

TOLD_REQUESTS: Final = 10
"""Requests that get an event and a condition: those of the refused row if the reason names one, else the first by name."""
TOLD_EVERY_S: Final = 600.0
_PROBLEM_CHARACTERS: Final = 600
_ROW: Final = re.compile(r"needs\[([0-9]{1,9})\]")

Named = Iterable[tuple[ObjectKey, RequestView]]
"""Requests by key."""
Mark = Callable[[ObjectKey, RequestView, RollupRefusal], None]


class RefusedRollups:
    """Whether the last roll-up that was answered was refused; shown as log line, events, conditions and metrics."""

    def __init__(self, events: EventRecorder, mark: Mark, *, clock: Clock, metrics: Metrics) -> None:
        """`mark` writes the condition of a request."""
        self._events, self._mark, self._clock, self._metrics = events, mark, clock, metrics
        self.is_refused = False
        """Whether the shard goes on with an older demand, so that nothing newer is reported."""
        self._told: tuple[str, float] | None = None
        self._log = structlog.get_logger("bigfleet.operator")

    def refused(self, problem: str, requests: Callable[[int | None, int], Named]) -> None:
        """A roll-up was refused; `requests` returns so many requests of a row, or of all rows."""
        self.is_refused = True
        self._metrics.counter("bigfleet_operator_rollups_refused_total").inc()
        self._metrics.gauge("bigfleet_operator_rollup_refused").set(1)
        problem = cut(problem, _PROBLEM_CHARACTERS)
        # What was found may differ each time, as the number of rows does; the field and the limit say whether it is new.
        about, now_s = problem.partition(": found")[0], monotonic_s(self._clock)
        if self._told is not None and self._told[0] == about and now_s - self._told[1] < TOLD_EVERY_S:
            return
        self._told = (about, now_s)
        self._log.error("rollup_refused", why=problem)
        row = _ROW.match(problem)
        message = f"the shard refused the demand of the cluster as a whole and keeps the last one it accepted: {problem}"
        for key, view in requests(None if row is None else int(row[1]), TOLD_REQUESTS):
            self._mark(key, view, RollupRefusal(message=message))
            reference = ObjectReference(CAPACITY_REQUESTS, key, view.uid)
            self._events.record(reference, "Warning", ROLLUP_REFUSED, message)

    def accepted(self) -> None:
        """A roll-up was accepted."""
        self.is_refused = False
        self._metrics.gauge("bigfleet_operator_rollup_refused").set(0)
        if self._told is not None:
            self._log.info("rollup_accepted_again")
            self._told = None
