"""The coalescing outbox (`shard#outbox`, ADR-0075)."""

import asyncio

import pytest

from bigfleet.aio.outbox import Outbox, OutboxFullError
from bigfleet.testing.loop import run_virtual


async def drained(outbox: Outbox) -> list[bytes]:
    return [await outbox.take() for _ in range(len(outbox))]


def test_frames_leave_in_the_order_in_which_they_came() -> None:
    async def story() -> None:
        outbox = Outbox(10)
        for frame in (b"a", b"b", b"c"):
            outbox.put(frame)
        assert await drained(outbox) == [b"a", b"b", b"c"]

    run_virtual(story())


def test_a_newer_frame_of_a_key_takes_the_place_of_the_older_one_at_the_end() -> None:
    async def story() -> None:
        outbox = Outbox(10)
        outbox.put(b"node 1 old", "node:1")
        outbox.put(b"reclaim")
        outbox.put(b"node 2", "node:2")
        outbox.put(b"node 1 new", "node:1")
        assert await drained(outbox) == [b"reclaim", b"node 2", b"node 1 new"]

    run_virtual(story())


def test_frames_without_a_key_are_bounded_and_those_with_one_are_not() -> None:
    async def story() -> None:
        outbox = Outbox(2)
        for number in range(1000):
            outbox.put(b"state", f"node:{number}")
        outbox.put(b"one")
        outbox.put(b"two")
        with pytest.raises(OutboxFullError, match="2 frames that nothing supersedes"):
            outbox.put(b"three")
        assert len(outbox) == 1002
        await drained(outbox)
        outbox.put(b"three")  # there is room again

    run_virtual(story())


def test_the_taker_waits_for_a_frame() -> None:
    async def story() -> None:
        outbox = Outbox(2)
        taking = asyncio.ensure_future(outbox.take())
        await asyncio.sleep(1)
        assert not taking.done()
        outbox.put(b"late")
        assert await taking == b"late"

    run_virtual(story())


@pytest.mark.rule("shard#outbox")
def test_the_bytes_of_all_frames_are_bounded_and_those_that_left_do_not_count() -> None:
    async def story() -> None:
        outbox = Outbox(10, limit_bytes=20)
        for _ in range(5):
            outbox.put(b"0123456789", "key:1")  # each in place of the one before
        assert await outbox.take() == b"0123456789"
        outbox.put(b"0123456789")
        assert await outbox.take() == b"0123456789"
        outbox.put(b"0123456789", "key:1")
        with pytest.raises(OutboxFullError, match="20 bytes of frames"):
            outbox.put(b"01234", "key:2")

    run_virtual(story())
