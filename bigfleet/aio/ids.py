"""The id seam: ids of operations, requests, instructions and sessions.

Why: an id drawn straight from the operating system would make two runs of one seed differ.
Must never: be used for fencing epochs or sequences, which count, nor for names that users see.
Rules: `testing#constructor-seams`; sixteen lower-case hex digits as `wire#provider` and `coordinator#instructions` say.
"""

import os
from typing import Protocol

ID_BYTES = 8


class Ids(Protocol):
    """Fresh ids, each of sixteen lower-case hex digits."""

    def operation(self) -> str:
        """Return the id of an operation that a provider accepts."""

    def request(self) -> str:
        """Return the id of a request that waits for its answer on a stream."""

    def instruction(self) -> str:
        """Return the id of an instruction of the coordinator."""

    def session(self) -> str:
        """Return the id of one session between an operator and a shard."""


class SystemIds:
    """Ids from the operating system's secure source: an instruction's id must not be guessable."""

    def operation(self) -> str:
        return self._fresh()

    def request(self) -> str:
        return self._fresh()

    def instruction(self) -> str:
        return self._fresh()

    def session(self) -> str:
        return self._fresh()

    @staticmethod
    def _fresh() -> str:
        return os.urandom(ID_BYTES).hex()
