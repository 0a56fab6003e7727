"""What the gate lets pass: frames within the limit, in whatever pieces they come."""

import struct

import pytest

from bigfleet.coordinator.raft.pipes import FIRST_FRAME_BYTES, FRAME_BYTES, FrameMeter


def frame(size: int) -> bytes:
    return struct.pack("i", size) + b"x" * size


@pytest.mark.parametrize("piece", [1, 2, 3, 5, 100, 10_000])
def test_frames_within_the_limit_pass_in_any_pieces(piece: int) -> None:
    meter = FrameMeter()
    data = frame(10) + frame(FIRST_FRAME_BYTES) + frame(1)
    assert all(meter.fits(data[at : at + piece]) for at in range(0, len(data), piece))


@pytest.mark.parametrize("size", [FIRST_FRAME_BYTES + 1, FRAME_BYTES, 2**31 - 1, 0, -1, -(2**31)])
def test_a_stranger_may_not_announce_more_than_a_greeting(size: int) -> None:
    meter = FrameMeter()
    assert meter.fits(frame(10))
    assert not meter.fits(struct.pack("i", size))


def test_who_is_known_may_send_whole_batches() -> None:
    meter = FrameMeter()
    meter.limit = FRAME_BYTES
    assert meter.fits(struct.pack("i", FRAME_BYTES))
    assert meter.fits(b"x" * FRAME_BYTES)
    assert not meter.fits(struct.pack("i", FRAME_BYTES + 1))
