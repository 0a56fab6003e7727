"""Objects whose last write may or may not have been carried out, because its answer was lost.

Why: the cache lags behind such a write until the watch catches up, up to two minutes. A newer frame that asks for what the cache
still shows would be taken for done and never sent again.
Must never: be cleared by anything but an answer of the API server about the object.
Rules: `operator#writes-land`, `operator#own-writes-seen`; ADR-0166.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from bigfleet.kube.errors import KubeError


class UnconfirmedWrites:
    """The names of such objects, of one kind."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._names

    @contextmanager
    def track(self, name: str) -> Iterator[None]:
        """Track one call about an object: an answer confirms it, a call that ended without one does not."""
        try:
            yield
        except asyncio.CancelledError:
            self._names.add(name)
            raise
        except KubeError as error:
            if error.temporary:
                self._names.add(name)
            raise
        else:
            self._names.discard(name)
