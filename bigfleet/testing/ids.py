"""Ids computed from a seed.

Why: ids go on the wire and into files, so two runs of one seed must have the same ids.
Must never: be used by a real process: the ids can be computed from the seed.
Rules: `testing#constructor-seams`, `testing#named-streams`.
"""

from bigfleet.aio.ids import ID_BYTES
from bigfleet.aio.rng import Rng


class SeededIds:
    """Draws each kind of id from its own stream, so that one more request changes no operation id."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng

    def operation(self) -> str:
        return self._fresh("operation")

    def request(self) -> str:
        return self._fresh("request")

    def instruction(self) -> str:
        return self._fresh("instruction")

    def session(self) -> str:
        return self._fresh("session")

    def _fresh(self, kind: str) -> str:
        return self._rng.stream(f"ids/{kind}").randbytes(ID_BYTES).hex()
