"""Laws that every message of the contract keeps, whatever it holds.

Rules: `wire#conventions`, `wire#presence`, `wire#additions`.
"""

from collections.abc import Callable

import pytest
from google.protobuf.message import Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.messages import contract_classes, messages, old_peer_classes, without_additions

NEW = contract_classes()
OLD = old_peer_classes()
# Fields of a peer that is newer than this contract: numbers that are not assigned yet, as a varint and as text.
UNKNOWN = st.sampled_from(
    [b"\xf8\xff\x03\x2a", b"\xfa\xff\x03\x05later", b"\xf8\xff\x03\x01\xfa\xff\x03\x00"]
)

QUICK = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
LONG = settings(QUICK, max_examples=400)

every_message = pytest.mark.parametrize("name", sorted(NEW), ids=lambda name: name.rpartition(".")[2])
every_old_message = pytest.mark.parametrize("name", sorted(OLD), ids=lambda name: name.rpartition(".")[2])
quick_and_long = pytest.mark.parametrize(
    "effort", [pytest.param(QUICK, id="quick"), pytest.param(LONG, id="long", marks=pytest.mark.long)]
)


def canonical(message: Message) -> bytes:
    return message.SerializeToString(deterministic=True)


def for_all(message_class: type[Message], effort: settings, law: Callable[[Message, bytes], None]) -> None:
    effort(given(messages(message_class), UNKNOWN)(law))()


@quick_and_long
@every_message
def test_decoding_gives_back_what_was_encoded(name: str, effort: settings) -> None:
    def law(message: Message, _: bytes) -> None:
        decoded = NEW[name].FromString(message.SerializeToString())
        assert decoded == message
        assert [field.name for field, _ in decoded.ListFields()] == [
            field.name for field, _ in message.ListFields()
        ]

    for_all(NEW[name], effort, law)


@quick_and_long
@every_message
def test_deterministic_bytes_do_not_hang_on_how_the_message_came_about(name: str, effort: settings) -> None:
    def law(message: Message, _: bytes) -> None:
        copy, merged = NEW[name](), NEW[name]()
        copy.CopyFrom(message)
        merged.MergeFromString(message.SerializeToString())
        assert canonical(copy) == canonical(merged) == canonical(message)
        assert canonical(NEW[name].FromString(canonical(message))) == canonical(message)

    for_all(NEW[name], effort, law)


@quick_and_long
@every_message
def test_fields_of_a_newer_peer_are_kept_and_can_be_dropped(name: str, effort: settings) -> None:
    def law(message: Message, unknown: bytes) -> None:
        received = NEW[name].FromString(canonical(message) + unknown)
        assert canonical(received) == canonical(message) + unknown
        received.DiscardUnknownFields()
        assert canonical(received) == canonical(message)

    for_all(NEW[name], effort, law)


@quick_and_long
@every_old_message
def test_an_old_peer_hands_on_a_new_message_unchanged(name: str, effort: settings) -> None:
    def law(message: Message, _: bytes) -> None:
        read = OLD[name].FromString(canonical(message))
        assert canonical(read) == canonical(message)
        read.DiscardUnknownFields()
        assert canonical(read) == canonical(without_additions(message))

    for_all(NEW[name], effort, law)


@quick_and_long
@every_old_message
def test_a_new_peer_reads_an_old_message_without_inventing_an_addition(name: str, effort: settings) -> None:
    def law(message: Message, _: bytes) -> None:
        read = NEW[name].FromString(canonical(message))
        assert canonical(read) == canonical(message)
        assert read == without_additions(read)

    for_all(OLD[name], effort, law)
