"""A shard's client of its provider: tokens, meanings of codes, deadlines (`shard#provider-client`, `wire#codes`)."""

from collections.abc import Awaitable, Callable

import pytest

from bigfleet.aio.net import Code
from bigfleet.model.machine import MachineState
from bigfleet.provider.client import ProviderClient
from bigfleet.provider.errors import (
    BadAnswerError,
    FencedError,
    ListTooLargeError,
    NeverSentError,
    NoSuchMachineError,
    NotOfferedError,
    OutcomeUnknownError,
    ProviderError,
)
from bigfleet.provider.fake.options import FakeOptions
from bigfleet.testing.loop import run_virtual
from bigfleet.v1alpha1 import provider_pb2
from tests.support.fake_provider import pool
from tests.support.observed_fleet import ObservedFleet

S = MachineState
IDLE = pool("idle", 2, state=S.IDLE)


def play(
    story: Callable[[ObservedFleet, ProviderClient], Awaitable[None]], fake: FakeOptions | None = None
) -> None:
    """Run a scenario with a client; the shard beside it is idle."""

    async def run_story() -> None:
        async with ObservedFleet((IDLE, pool("m", 2)), fake) as world:
            await story(world, world.run.client)

    run_virtual(run_story())


def test_every_attempt_carries_shard_epoch_and_a_fresh_sequence() -> None:
    async def story(world: ObservedFleet, client: ProviderClient) -> None:
        await client.create("m-0")
        await client.create("m-0")
        await client.configure("idle-0", "prod", b"blob", {"k": "v"})
        calls = [(call.shard_id, call.epoch, call.sequence) for call in world.fake.calls() if call.sequence]
        assert calls == [("shard-0", 1, 1), ("shard-0", 1, 2), ("shard-0", 1, 3)]

    play(story)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (Code.NOT_FOUND, NoSuchMachineError),
        (Code.UNIMPLEMENTED, NotOfferedError),
        (Code.FAILED_PRECONDITION, FencedError),
        (Code.DEADLINE_EXCEEDED, OutcomeUnknownError),
        (Code.UNAVAILABLE, OutcomeUnknownError),
        (Code.CANCELLED, OutcomeUnknownError),
        (Code.INTERNAL, ProviderError),
        (Code.INVALID_ARGUMENT, ProviderError),
        (Code.PERMISSION_DENIED, ProviderError),
    ],
)
def test_what_each_code_means(code: Code, error: type[ProviderError]) -> None:
    async def story(world: ObservedFleet, client: ProviderClient) -> None:
        world.fake.refuse("Create", code=code, message="because")
        with pytest.raises(ProviderError, match="because") as caught:
            await client.create("m-0")
        assert type(caught.value) is error
        assert (caught.value.call, caught.value.machine_id) == ("Create", "m-0")

    play(story)


def test_a_call_that_finds_no_connection_was_never_sent() -> None:
    async def story(world: ObservedFleet, client: ProviderClient) -> None:
        await world.fake.stop(0)
        with pytest.raises(NeverSentError):
            await client.delete("idle-0")
        await world.fake.start()

    play(story)


def test_a_deadline_leaves_the_outcome_unknown() -> None:
    async def story(world: ObservedFleet, client: ProviderClient) -> None:
        world.fake.lose_answer("Create")
        with pytest.raises(OutcomeUnknownError):
            await client.create("m-0", timeout_s=5)

    play(story)


@pytest.mark.parametrize("lie", ["nan-price", "alien-state"])
def test_an_answer_that_cannot_be_true_names_its_field(lie: str) -> None:
    async def story(world: ObservedFleet, client: ProviderClient) -> None:
        world.fake.lie(lie, 1.0)
        with pytest.raises(BadAnswerError) as caught:
            await client.create("m-0")
        assert caught.value.cause is not None

    play(story)


def test_get_reads_one_record_and_list_hands_over_bytes() -> None:
    async def story(world: ObservedFleet, client: ProviderClient) -> None:
        assert (await client.get("idle-0")).state is S.IDLE
        with pytest.raises(NoSuchMachineError):
            await client.get("nobody")
        data = await client.list(states=[S.IDLE])
        listing = provider_pb2.MachineList.FromString(data)
        assert sorted(machine.id for machine in listing.machines) == ["idle-0", "idle-1"]
        later = provider_pb2.MachineList.FromString(await client.list(since=listing.revision))
        assert not later.machines

    play(story)


def test_a_listing_that_is_refused_as_too_large_says_so() -> None:
    async def story(world: ObservedFleet, client: ProviderClient) -> None:
        world.fake.refuse("List", code=Code.RESOURCE_EXHAUSTED, message="larger than it may be")
        with pytest.raises(ListTooLargeError, match="larger than it may be"):
            await client.list()

    play(story)
