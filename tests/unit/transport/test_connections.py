import asyncio
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigfleet.aio.connection_report import NO_REPORT, RefusedFor
from bigfleet.model.errors import InvalidFieldError
from bigfleet.transport import grpc_warden
from bigfleet.transport.connections import BookLimits, ConnectionBook, Departure, GrpcLimits
from bigfleet.transport.descriptors import RESERVE, DescriptorShares
from bigfleet.transport.grpc_warden import CallingPeers, Place, Warden, WardenLimits, place_of, victims

pytestmark = pytest.mark.rule("packaging#connection-limits")

LIMITS = BookLimits(connections=4, unproven=3, unproven_per_address=2)


def test_an_address_over_its_own_limit_loses_its_oldest() -> None:
    book: ConnectionBook[int] = ConnectionBook(LIMITS)
    assert [book.enter(key, "a") for key in (1, 2)] == [None, None]
    assert book.enter(3, "a") == Departure(1, RefusedFor.ADDRESS)
    assert book.present() == (2, 3)


def test_a_full_listener_ends_one_of_the_address_that_holds_most() -> None:
    book: ConnectionBook[int] = ConnectionBook(LIMITS)
    for key, address in ((1, "b"), (2, "a"), (3, "a")):
        assert book.enter(key, address) is None
    assert book.enter(4, "c") == Departure(2, RefusedFor.FULL)


def test_what_has_proven_itself_stays_and_the_newcomer_goes_when_nothing_else_is_left() -> None:
    book: ConnectionBook[int] = ConnectionBook(LIMITS)
    for key in range(4):
        assert book.enter(key, "a") is None
        book.prove(key)
    assert book.enter(4, "b") == Departure(4, RefusedFor.FULL)
    book.leave(0)
    assert book.enter(5, "b") is None


def test_a_book_that_does_not_spare_them_ends_the_oldest_proven_one() -> None:
    book: ConnectionBook[int] = ConnectionBook(LIMITS, spare_proven=False)
    for key in range(4):
        book.enter(key, "a")
        book.prove(key)
    assert book.enter(4, "b") == Departure(0, RefusedFor.FULL)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["enter", "prove", "leave"]))))
def test_no_limit_is_ever_exceeded_whatever_comes(steps: list[tuple[str, str]]) -> None:
    book: ConnectionBook[tuple[str, int]] = ConnectionBook(LIMITS)
    keys = count()
    for address, step in steps:
        own = [key for key in book.present() if key[0] == address]
        if step == "enter":
            book.enter((address, next(keys)), address)
        elif own:
            (book.prove if step == "prove" else book.leave)(own[0])
        assert len(book) == len(book.present()) <= LIMITS.connections
        assert book.unproven <= LIMITS.unproven


@pytest.mark.parametrize("limit", [128, 256, 1024, 65_536])
def test_listeners_together_leave_the_reserve(limit: int) -> None:
    shares = DescriptorShares.of(limit)
    assert shares.grpc + shares.raft + shares.http <= limit - RESERVE
    assert min(shares.grpc, shares.raft, shares.http) > 0


@pytest.mark.parametrize(
    ("field", "limits"),
    [
        ("max_connections", lambda: GrpcLimits(max_connections=0)),
        ("unproven_per_address", lambda: GrpcLimits(unproven_per_address=0)),
        ("handshake_s", lambda: GrpcLimits(handshake_s=0)),
    ],
)
def test_a_limit_that_lets_nothing_in_is_refused(field: str, limits: object) -> None:
    with pytest.raises(InvalidFieldError, match=field):
        limits()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("peer", "place"),
    [
        ("ipv4:10.0.0.1:4711", ("10.0.0.1", 4711)),
        ("ipv6:%5B::1%5D:4711", ("::1", 4711)),
        ("ipv6:%5B::ffff:10.0.0.1%5D:4711", ("10.0.0.1", 4711)),
        ("unix:/run/socket", None),
        ("", None),
    ],
)
def test_the_librarys_spelling_of_a_peer_is_read(peer: str, place: Place | None) -> None:
    assert place_of(peer) == place


def test_a_connection_counts_as_calling_during_a_call_and_after_it() -> None:
    peers, peer, place = CallingPeers(), "ipv4:10.0.0.1:4711", ("10.0.0.1", 4711)
    with peers.calling(peer), peers.calling(peer):
        assert place in peers
    assert place in peers
    peers.keep_recent({place: 3})
    assert place in peers
    peers.keep_recent({})
    assert place not in peers


LIMITED = WardenLimits(connections=100, unproven_per_address=30)


def silent(address: str, ports: range, since_s: float = 0.0) -> dict[Place, float]:
    return {(address, port): since_s + port / 1000 for port in ports}


def test_an_address_with_too_many_silent_connections_loses_its_oldest() -> None:
    chosen = victims(silent("a", range(40)), 40, LIMITED, now_s=10)
    assert chosen == {("a", port): RefusedFor.ADDRESS for port in range(10)}


def test_a_full_listener_is_brought_to_half_by_ending_those_of_the_heaviest_addresses() -> None:
    since = silent("a", range(30)) | silent("b", range(10)) | silent("c", range(3))
    chosen = victims(since, 80, LIMITED, now_s=10)
    assert len(chosen) == 30
    left = [place for place in since if place not in chosen]
    assert [sum(place[0] == address for place in left) for address in "abc"] == [5, 5, 3]
    assert ("a", 29) in left
    assert ("a", 0) in chosen


def test_young_connections_stay() -> None:
    assert victims(silent("a", range(90), since_s=9.95), 90, LIMITED, now_s=10) == {}


def test_a_listener_that_was_full_is_counted_once_more_when_it_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a metric would show for ever how many connections there were under pressure."""
    monkeypatch.setattr(grpc_warden, "LOOK_S", 0.0)
    pressed, found = iter([False, True, True, False, False, False]), iter([90, 80, 10])
    counted: list[int] = []

    class Counting(Warden):
        def _may_be_full(self) -> bool:
            return next(pressed)  # ends the look when it has no more

        async def sweep(self, now_s: float) -> int:
            counted.append(next(found))
            return 0  # so that the next look is soon

    warden = Counting(1, LIMITED, CallingPeers(), NO_REPORT)
    with pytest.raises(RuntimeError, match="StopIteration"):
        asyncio.run(warden.run())
    assert counted == [90, 80, 10]
