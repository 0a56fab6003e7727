"""An outbox of one stream: frames wait in order, and a newer one takes the place of those it supersedes.

Why: a peer that stops reading must cost its own stream only. Putting a frame in never waits; one task takes frames out
at the pace of the peer.
Must never: drop or overtake a frame that nothing supersedes, or grow without bound: of those only so many may wait, and all
together only so many bytes.
Rules: `shard#outbox`; ADR-0075, ADR-0237.
"""

import asyncio
from collections import OrderedDict

from bigfleet.model.errors import BigFleetError

MAX_BYTES = 128 << 20
"""Of all waiting frames and their keys. The states of 200,000 machines of one cluster take about half of it."""


class OutboxFullError(BigFleetError):
    """The peer has not read for so long that the stream has to end."""

    def __init__(self, limit: int, what: str = "frames that nothing supersedes") -> None:
        super().__init__(f"{limit} {what} wait for a peer that does not read")
        self.limit = limit


class Outbox:
    """Frames on their way to one peer."""

    def __init__(self, limit: int, limit_bytes: int = MAX_BYTES) -> None:
        """`limit` is for frames without a key; those with one are as many as there are keys, and bounded by bytes."""
        self._limit, self._limit_bytes, self._bytes = limit, limit_bytes, 0
        self._frames: OrderedDict[str | int, bytes] = OrderedDict()
        self._number = 0
        self._plain = 0
        self._filled = asyncio.Event()

    def __len__(self) -> int:
        return len(self._frames)

    def put(self, frame: bytes, supersedes: str = "") -> None:
        """Append a frame; a waiting one that has the same key goes."""
        size = len(frame) + len(supersedes)
        before = self._frames.get(supersedes) if supersedes else None
        if before is not None:
            size -= len(before) + len(supersedes)
        if self._bytes + size > self._limit_bytes:
            raise OutboxFullError(self._limit_bytes, "bytes of frames")
        if supersedes:
            self._frames.pop(supersedes, None)
            self._frames[supersedes] = frame
        else:
            if self._plain >= self._limit:
                raise OutboxFullError(self._limit)
            self._plain += 1
            self._number += 1
            self._frames[self._number] = frame
        self._bytes += size
        self._filled.set()

    async def take(self) -> bytes:
        """Wait for the oldest frame and take it out; for one task only."""
        while not self._frames:
            self._filled.clear()
            await self._filled.wait()
        key, frame = self._frames.popitem(last=False)
        if isinstance(key, int):
            self._plain -= 1
            key = ""
        self._bytes -= len(frame) + len(key)
        return frame
