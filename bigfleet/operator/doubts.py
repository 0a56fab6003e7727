"""Objects whose last write may or may not have been carried out.

Why: a write whose answer was lost leaves the cache behind the API server until the watch catches up, which may take two minutes. A
newer frame that happens to ask for what the cache still shows would then be taken for done, and is never sent again.
Must never: be cleared by anything but an answer of the API server about the object.
Rules: operator 6.3 rules 12 and 13, ADR-0166.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from bigfleet.kube.errors import KubeError


class Doubts:
    """The names of such objects, of one kind."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._names

    @contextmanager
    def about(self, name: str) -> Iterator[None]:
        """Watch over one call: an answer settles a doubt, a call that ended without one raises it."""
        try:
            yield
        except asyncio.CancelledError:
            self._names.add(name)
            raise
        except KubeError as error:
            if error.passing:
                self._names.add(name)
            raise
        else:
            self._names.discard(name)
