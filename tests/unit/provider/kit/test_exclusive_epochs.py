"""A shard that announces exclusive epochs is fenced on every machine once its successor was seen, restarts included."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from bigfleet.aio.identity import ADMIN, Identity
from bigfleet.aio.net import Metadata
from bigfleet.model.errors import BigFleetError
from bigfleet.model.machine import MachineState as S
from bigfleet.provider.client import ProviderClient
from bigfleet.provider.errors import FencedError, NoSuchMachineError, ProviderError
from bigfleet.provider.exclusive_epochs import (
    EPOCH_KEY,
    EXCLUSIVE,
    FENCE_KEY,
    SHARD_KEY,
    announced_epoch,
    announcement,
)
from bigfleet.provider.kit.core.changes import FenceMark, ShardEpoch
from bigfleet.provider.kit.core.fence import Fence, FencingToken
from bigfleet.provider.kit.core.values import DescribedMachine
from bigfleet.provider.kit.entries import EntryDecoder, encode
from bigfleet.provider.kit.state_files import write_snapshot
from bigfleet.provider.methods import LIST
from bigfleet.providerkit.scripted import MemoryStore, ScriptedBackend
from bigfleet.providerkit.virtual import VirtualProvider
from bigfleet.testing.loop import run_virtual
from bigfleet.v1alpha1 import provider_pb2 as pb

MakeSlots = Callable[..., list[DescribedMachine]]
SHARD = "shard-0"

pytestmark = pytest.mark.rule("providers#epoch-per-shard")


def process(provider: VirtualProvider, epoch: int, shard_id: str = SHARD) -> ProviderClient:
    """Return the client of one process of a shard."""
    return ProviderClient(provider.another_channel(), shard_id=shard_id, epoch=epoch)


def play(
    story: Callable[[VirtualProvider], Awaitable[None]],
    slots: list[DescribedMachine],
    store: MemoryStore | None = None,
) -> None:
    async def run() -> None:
        async with VirtualProvider(ScriptedBackend(slots), store=store) as provider:
            await story(provider)

    run_virtual(run())


@pytest.mark.parametrize("seen_by", ["create", "list", "get"])
def test_any_call_of_the_successor_fences_the_predecessor_on_every_machine(
    slots: MakeSlots, seen_by: str
) -> None:
    async def story(provider: VirtualProvider) -> None:
        old, new = process(provider, 1), process(provider, 2)
        for machine_id in ("m-1", "m-2"):
            await old.create(machine_id)
            await provider.settled(machine_id)
        match seen_by:
            case "create":
                await new.create("m-0")
            case "list":
                await new.list()
            case "get":
                await new.get("m-0")
        head = provider.kit.state.head
        for call in (old.configure("m-1", "c", b"", {}), old.delete("m-2"), old.create("ghost")):
            with pytest.raises(FencedError, match=r"epoch 1 of shard-0 is over, as a process with epoch 2"):
                await call
        assert [provider.machine(machine_id).state for machine_id in ("m-1", "m-2")] == [S.IDLE, S.IDLE]
        assert provider.kit.state.head == head or seen_by == "create"
        await old.list()  # a read is never fenced, and an old epoch does not come back
        await new.configure("m-1", "c", b"", {})

    play(story, slots())


@pytest.mark.parametrize("snapshot", [False, True])
def test_the_epoch_is_on_disk_before_the_listing_is_answered(slots: MakeSlots, snapshot: bool) -> None:
    async def story(provider: VirtualProvider) -> None:
        await process(provider, 7).list()
        if snapshot:
            await write_snapshot(provider.store, provider.kit.state)
        await provider.restart()
        with pytest.raises(FencedError):
            await process(provider, 6).create("m-0")

    play(story, slots())


def test_a_listing_waits_until_its_new_epoch_is_on_disk(slots: MakeSlots) -> None:
    store = MemoryStore()

    async def story(provider: VirtualProvider) -> None:
        store.hold()
        listing = asyncio.ensure_future(process(provider, 2).list())
        await provider.pass_time(1)
        assert not listing.done()
        store.release()
        assert await listing

    play(story, slots(), store)


def test_one_write_per_new_epoch_and_none_for_the_listings_after_it(slots: MakeSlots) -> None:
    store = MemoryStore()

    async def story(provider: VirtualProvider) -> None:
        before = len(store.entries)
        first, second = process(provider, 1), process(provider, 2)
        for _ in range(3):
            await first.list()
        await second.list()
        for _ in range(3):
            await first.list()
            await second.get("m-0")
        assert len(store.entries) == before + 2

    play(story, slots(), store)


def test_callers_that_announce_nothing_keep_the_marks_per_machine(slots: MakeSlots) -> None:
    async def story(provider: VirtualProvider) -> None:
        await process(provider, 9).create("m-0")
        await provider.client.create("m-1", FencingToken(SHARD, 3, 1))
        await process(provider, 1, "shard-1").create("m-2")  # nor does one shard end another
        await process(provider, 9).list()
        with pytest.raises(FencedError):
            await process(provider, 8).create("m-2")

    play(story, slots())


def test_a_store_that_cannot_be_written_costs_the_mark_and_not_the_listing(slots: MakeSlots) -> None:
    store = MemoryStore()

    async def story(provider: VirtualProvider) -> None:
        store.problem = BigFleetError("the disk is full")
        await process(provider, 2).list()
        store.problem = None
        await process(provider, 1).create("m-0")

    play(story, slots(), store)


def test_only_the_shard_itself_may_announce_its_epoch_where_certificates_are_required(
    slots: MakeSlots,
) -> None:
    async def listed_by(identity: Identity, *, required: bool | None = None) -> int | None:
        backend = ScriptedBackend(slots())
        async with VirtualProvider(backend, identity=identity, require_shard_san=required) as provider:
            with suppress(ProviderError):
                await process(provider, 5).list()
            return provider.kit.state.fence.epoch(SHARD)

    assert run_virtual(listed_by(Identity.shard(SHARD))) == 5
    assert run_virtual(listed_by(Identity.shard("shard-1"))) is None
    assert run_virtual(listed_by(ADMIN)) is None
    assert run_virtual(listed_by(ADMIN, required=False)) == 5


@pytest.mark.rule("wire#exclusive-epochs")
@pytest.mark.parametrize(
    "metadata",
    [
        (),
        ((FENCE_KEY, EXCLUSIVE),),
        ((FENCE_KEY, "another"), (SHARD_KEY, b"s"), (EPOCH_KEY, "1")),
        ((FENCE_KEY, EXCLUSIVE), (SHARD_KEY, b""), (EPOCH_KEY, "1")),
        ((FENCE_KEY, EXCLUSIVE), (SHARD_KEY, b"\xff"), (EPOCH_KEY, "1")),
        ((FENCE_KEY, EXCLUSIVE), (SHARD_KEY, b"s" * 1025), (EPOCH_KEY, "1")),
        ((FENCE_KEY, EXCLUSIVE), (SHARD_KEY, b"s"), (EPOCH_KEY, "-1")),
        ((FENCE_KEY, EXCLUSIVE), (SHARD_KEY, b"s"), (EPOCH_KEY, "9" * 19)),
        ((FENCE_KEY, EXCLUSIVE), (SHARD_KEY, b"s"), (EPOCH_KEY, "9" * 5000)),
        ((FENCE_KEY, EXCLUSIVE), (SHARD_KEY, b"s"), (EPOCH_KEY, "one")),
    ],
    ids=str,
)
def test_metadata_that_cannot_be_read_announces_nothing(slots: MakeSlots, metadata: Metadata) -> None:
    async def story(provider: VirtualProvider) -> None:
        channel = provider.another_channel()
        await channel.unary(LIST, pb.ListFilter(), timeout_s=1, metadata=metadata)
        assert list(provider.kit.state.fence.epochs()) == []

    play(story, slots())


def test_an_announcement_is_read_as_it_was_written() -> None:
    for shard_id, epoch in ((SHARD, 1), ("größe", 2**63 - 1), ("s" * 1024, 0)):
        assert announced_epoch(announcement(shard_id, epoch)) == (shard_id, epoch)


def test_epochs_are_bounded_and_the_oldest_are_dropped() -> None:
    fence = Fence(epochs_kept=2)
    for shard_id, epoch in (("a", 1), ("b", 1), ("a", 2), ("c", 1), ("a", 1)):
        fence.set_epoch(ShardEpoch(shard_id, epoch))
    assert list(fence.epochs()) == [ShardEpoch("a", 2), ShardEpoch("c", 1)]


def test_an_epoch_is_encoded_and_decoded() -> None:
    changes = (FenceMark("s", "m", 4, -1), ShardEpoch("größe", 2**62), ShardEpoch("t", -3))
    assert tuple(EntryDecoder().decode(encode(changes))) == changes


def test_a_call_that_is_refused_for_another_reason_still_ends_the_epochs_before(slots: MakeSlots) -> None:
    async def story(provider: VirtualProvider) -> None:
        with pytest.raises(NoSuchMachineError):
            await process(provider, 4).create("ghost")
        with pytest.raises(FencedError):
            await process(provider, 3).create("m-0")

    play(story, slots())
