"""Writes that must land, whatever the API server goes through meanwhile.

Why: a frame comes once. An API server that has just started refuses even those who may, until it has read its roles, so a
refusal is waited out like any other trouble; what is really forbidden is told in the log at every try.
Must never: repeat something that is stale, or a refusal of the object itself.
Rules: operator 6.3 rule 12, ADR-0126.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from bigfleet.aio.clock import Clock
from bigfleet.aio.rng import RandomStream
from bigfleet.kube.errors import ForbiddenError, KubeError
from bigfleet.kube.writes import until_landed

R = TypeVar("R")


class Landing:
    """Tries again until it is done."""

    def __init__(self, clock: Clock, stream: RandomStream) -> None:
        self._clock, self._stream = clock, stream
        self._log = structlog.get_logger("bigfleet.operator")

    async def land(
        self,
        attempt: Callable[[], Awaitable[R]],
        *,
        is_stale: Callable[[], bool] = lambda: False,
        refusals_pass: bool = True,
    ) -> R | None:
        """Make the attempt until it succeeds; None once it is stale."""

        def failed(error: KubeError, wait_s: float) -> None:
            self._log.warning("write_failed", error=str(error), wait_s=round(wait_s, 3))

        return await until_landed(
            attempt,
            clock=self._clock,
            stream=self._stream,
            is_stale=is_stale,
            on_failure=failed,
            also=(ForbiddenError,) if refusals_pass else (),
        )
