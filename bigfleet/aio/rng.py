"""The randomness seam: named streams, each derived from one seed by its name alone.

Why: one seed must mean one run. A stream depends on (seed, name) and on nothing else, so that a new stream, or more draws
from another one, does not change other streams.
Real processes use `SystemRng`, tests and runs on virtual time `SeededRng` with a seed they print.
Must never: make a secret or an id that has to be unguessable; `bigfleet.aio.ids` asks the operating system for those.
Rules: `testing#constructor-seams`, `testing#named-streams`.
"""

import hashlib
import os
import random
from collections.abc import MutableSequence, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")

# Parts of the hashed text are separated, so that stream "a" of child "b" is not child stream of some other pair.
_STREAM = b"stream\0"
_CHILD = b"child\0"


class RandomStream(Protocol):
    """One sequence of draws; every call moves it on."""

    def random(self) -> float:
        """Return a float from 0 up to, but without, 1."""

    def uniform(self, a: float, b: float) -> float:
        """Return a float between the two bounds."""

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        """Return one value of the range."""

    def randint(self, a: int, b: int) -> int:
        """Return an integer between the bounds, both included."""

    def choice(self, seq: Sequence[T]) -> T:
        """Return one element of a sequence that is not empty."""

    def sample(self, population: Sequence[T], k: int) -> list[T]:
        """Return k elements, each position at most once, in random order."""

    def shuffle(self, x: MutableSequence[T]) -> None:
        """Reorder a list in place."""

    def expovariate(self, lambd: float) -> float:
        """Return the wait for the next event of a process with that rate."""

    def getrandbits(self, k: int) -> int:
        """Return an integer of at most k bits."""

    def randbytes(self, n: int) -> bytes:
        """Return n bytes."""


class Rng(Protocol):
    """A family of named streams."""

    def stream(self, name: str) -> RandomStream:
        """Return the stream of that name, always the same object: a second caller goes on where the first stopped."""

    def child(self, name: str) -> "Rng":
        """Return a family of its own for a part of the system; its names never meet those of the parent."""


class SeededRng:
    """Streams that follow from the seed; the same on every host and under every hash seed."""

    def __init__(self, seed: int | bytes) -> None:
        # Text of the number, not a fixed width: any integer is a legal seed.
        self._key = seed if isinstance(seed, bytes) else b"seed\0" + str(seed).encode()
        self._streams: dict[str, random.Random] = {}

    def stream(self, name: str) -> RandomStream:
        found = self._streams.get(name)
        if found is None:
            seed = int.from_bytes(self._derive(_STREAM, name))
            found = self._streams[name] = random.Random(seed)  # noqa: S311 - repeatable is the point
        return found

    def child(self, name: str) -> "SeededRng":
        return SeededRng(self._derive(_CHILD, name))

    def _derive(self, kind: bytes, name: str) -> bytes:
        # The key is hashed first: without it, key and name of different lengths could run into each other.
        return hashlib.sha256(hashlib.sha256(self._key).digest() + kind + name.encode()).digest()


class SystemRng(SeededRng):
    """Streams seeded by the operating system; different in every process."""

    def __init__(self) -> None:
        super().__init__(os.urandom(32))
