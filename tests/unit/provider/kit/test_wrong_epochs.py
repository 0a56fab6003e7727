"""An epoch that no shard can have reached is refused, and a person lowers the marks that a wrong one has left."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from bigfleet.aio.disk import DiskCause, DiskError
from bigfleet.aio.net import Code, RpcError
from bigfleet.model.errors import BigFleetError, InvalidFieldError
from bigfleet.provider.client import ProviderClient
from bigfleet.provider.contract import INT64_MAX, MAX_EPOCH_STEP
from bigfleet.provider.errors import FencedError, ProviderError
from bigfleet.provider.kit.audit import RepairAuditFile
from bigfleet.provider.kit.core.changes import FenceMark, LowerMarks, ShardEpoch
from bigfleet.provider.kit.core.fence import Fence, FencingToken
from bigfleet.provider.kit.core.values import DescribedMachine
from bigfleet.provider.kit.entries import EntryDecoder, encode
from bigfleet.provider.kit.journal import Journal
from bigfleet.provider.kit.limits import Limits
from bigfleet.provider.kit.reset_marks import NoStateError, reset_stored_marks
from bigfleet.provider.kit.state_files import write_snapshot
from bigfleet.providerkit.scripted import MemoryStore, ScriptedBackend
from bigfleet.providerkit.virtual import VirtualProvider
from bigfleet.testing.clock import VirtualClock
from bigfleet.testing.disk.image import DiskFault
from bigfleet.testing.disk.virtual_disk import MemoryDisk
from bigfleet.testing.loop import run_virtual
from tests.support.fake_provider import code_of

MakeSlots = Callable[..., list[DescribedMachine]]
SHARD = "shard-0"
FORGED = 2**62
AUDIT = "/audit.jsonl"


def process(provider: VirtualProvider, epoch: int, shard_id: str = SHARD) -> ProviderClient:
    """Return the client of one process of a shard of ours."""
    return ProviderClient(provider.another_channel(), shard_id=shard_id, epoch=epoch)


def play(
    story: Callable[[VirtualProvider], Awaitable[None]], slots: list[DescribedMachine], **options: object
) -> None:
    async def run() -> None:
        async with VirtualProvider(ScriptedBackend(slots), **options) as provider:  # type: ignore[arg-type]
            await story(provider)

    run_virtual(run())


async def refusal(call: Awaitable[object]) -> str:
    with pytest.raises((RpcError, ProviderError)) as refused:
        await call
    return str(refused.value)


def refused_epochs(provider: VirtualProvider) -> float:
    return sum(
        count
        for labels, count in provider.samples("bigfleet_provider_refused_total")
        if labels["reason"] == "epoch"
    )


@pytest.mark.rule("providers#epoch-step")
def test_a_forged_epoch_of_a_shard_of_ours_leaves_no_mark_whether_it_is_announced_or_not(
    slots: MakeSlots,
) -> None:
    async def story(provider: VirtualProvider) -> None:
        right = process(provider, 5)
        await right.list()
        silent = await refusal(provider.client.create("m-0", FencingToken(SHARD, FORGED, 1)))
        announced = await refusal(process(provider, FORGED).create("m-0"))
        for text in (silent, announced):
            assert f"shard_epoch: found {FORGED}" in text
            assert "INVALID_ARGUMENT" in text
        await process(provider, FORGED).list()  # a read is answered, and its epoch is not kept
        assert provider.kit.state.fence.epoch(SHARD) == 5
        assert refused_epochs(provider) == 3
        await right.create("m-0")

    play(story, slots())


@pytest.mark.rule("providers#epoch-step")
def test_the_first_announcement_of_a_shard_is_bounded_too(slots: MakeSlots) -> None:
    async def story(provider: VirtualProvider) -> None:
        await refusal(process(provider, MAX_EPOCH_STEP + 1).create("m-0"))
        await process(provider, MAX_EPOCH_STEP).create("m-0")

    play(story, slots())


@pytest.mark.rule("providers#epoch-step")
def test_the_shard_passes_every_mark_that_a_caller_without_an_announcement_could_set(
    slots: MakeSlots,
) -> None:
    async def story(provider: VirtualProvider) -> None:
        await process(provider, 5).list()
        highest = 5 + 10 - 1
        await refusal(provider.client.create("m-0", FencingToken(SHARD, highest + 1, 1)))
        await provider.client.create("m-0", FencingToken(SHARD, highest, INT64_MAX))
        await provider.settled("m-0")
        await process(provider, highest + 1).configure("m-0", "c", b"", {})

    play(story, slots(), limits=Limits(refresh=0, max_epoch_step=10))


@pytest.mark.rule("providers#fence-mark", "providers#epoch-step")
def test_shards_that_announce_nothing_keep_the_whole_range_of_the_contract(slots: MakeSlots) -> None:
    async def story(provider: VirtualProvider) -> None:
        await process(provider, 5, "another").list()
        await provider.client.create("m-0", FencingToken(SHARD, INT64_MAX, INT64_MAX))
        await provider.client.create("m-1", FencingToken(SHARD, 1, 1))
        await provider.client.create("m-1", FencingToken(SHARD, FORGED, 1))

    play(story, slots())


@pytest.mark.rule("providers#epoch-step")
def test_a_stale_token_is_fenced_before_its_epoch_is_looked_at(slots: MakeSlots) -> None:
    async def story(provider: VirtualProvider) -> None:
        await provider.client.create("m-0", FencingToken(SHARD, INT64_MAX, 1))
        await process(provider, 1).list()
        with pytest.raises(FencedError):
            await process(provider, FORGED).create("m-0")

    play(story, slots())


def test_a_step_below_one_is_refused() -> None:
    with pytest.raises(InvalidFieldError, match="max_epoch_step"):
        Limits(max_epoch_step=0)


@pytest.mark.rule("providers#reset-marks")
@pytest.mark.parametrize("snapshot", [False, True])
def test_a_reset_lets_the_right_process_call_again_and_no_older_one(slots: MakeSlots, snapshot: bool) -> None:
    async def story(provider: VirtualProvider) -> None:
        # Forged before the shard announced anything, so nothing bounds them.
        for machine_id, code in (("m-0", Code.OK), ("ghost", Code.NOT_FOUND)):
            assert await code_of(provider.client.create(machine_id, FencingToken(SHARD, FORGED, 1))) is code
        await provider.client.create("m-1", FencingToken("another", FORGED, 1))
        await process(provider, 9).list()
        with pytest.raises(FencedError):
            await process(provider, 7).delete("m-2")
        assert await provider.kit.reset_marks(SHARD, 7, "uid 0") == 3  # two marks and the exclusive epoch
        assert await provider.kit.reset_marks(SHARD, 7, "uid 0") == 0
        if snapshot:
            await write_snapshot(provider.store, provider.kit.state)
        await provider.restart()
        await provider.settled("m-0")
        with pytest.raises(FencedError):
            await process(provider, 6).configure("m-0", "c", b"", {})
        with pytest.raises(RpcError, match="not newer"):
            await provider.client.configure("m-0", "c", token=FencingToken(SHARD, 6, INT64_MAX))
        await process(provider, 7).configure("m-0", "c", b"", {})
        await provider.settled("m-1")
        with pytest.raises(RpcError, match="not newer"):  # marks of other shards are left alone
            await provider.client.delete("m-1", FencingToken("another", 7, 1))

    play(story, slots())


@pytest.mark.rule("providers#reset-marks")
def test_a_reset_is_written_down_first_and_without_audit_there_is_none(slots: MakeSlots) -> None:
    disk = MemoryDisk()

    async def story(provider: VirtualProvider) -> None:
        await provider.client.create("m-0", FencingToken(SHARD, FORGED, 1))
        with pytest.raises(InvalidFieldError, match="shard: found ''"):
            await provider.kit.reset_marks("", 7, "uid 0")
        with pytest.raises(InvalidFieldError, match="epoch: found -1"):
            await provider.kit.reset_marks(SHARD, -1, "uid 0")
        assert await provider.kit.reset_marks(SHARD, 7, "uid 0") == 1
        disk.image.inject(DiskFault("write", DiskCause.FULL))
        with pytest.raises(DiskError):
            await provider.kit.reset_marks(SHARD, 1, "uid 0")
        assert provider.kit.state.fence.count_above(LowerMarks(SHARD, 1)) == 1

    play(story, slots(), audit=RepairAuditFile(disk, AUDIT))
    lines = [json.loads(line) for line in disk.read(AUDIT).splitlines() if line.endswith(b"}")]
    assert [(line["shard"], line["epoch"], line["who"], line["outcome"]) for line in lines[:2]] == [
        (SHARD, 7, "uid 0", "asked"),
        (SHARD, 7, "uid 0", "done"),
    ]
    assert all(line["action"] == "reset-marks" for line in lines)


@pytest.mark.rule("providers#reset-marks", "providers#persist-before-ack")
def test_a_reset_that_cannot_be_stored_changes_nothing(slots: MakeSlots) -> None:
    store = MemoryStore()

    async def story(provider: VirtualProvider) -> None:
        await provider.client.create("m-0", FencingToken(SHARD, FORGED, 1))
        store.problem = BigFleetError("the disk is full")
        with pytest.raises(ProviderError, match="the disk is full"):
            await provider.kit.reset_marks(SHARD, 7, "uid 0")
        store.problem = None
        assert provider.kit.state.fence.mark(SHARD, "m-0", 0) == (FORGED, 1)

    play(story, slots(), store=store)


def stored(disk: MemoryDisk) -> Journal:
    return Journal("/state", disk=disk, clock=VirtualClock())


@pytest.mark.rule("providers#reset-marks")
def test_the_marks_of_a_stopped_provider_are_reset_in_its_directory(slots: MakeSlots) -> None:
    disk = MemoryDisk()

    async def forge() -> None:
        async with VirtualProvider(ScriptedBackend(slots()), store=stored(disk)) as provider:
            await provider.client.create("m-0", FencingToken(SHARD, FORGED, 1))
            await process(provider, 3).list()
            with pytest.raises(DiskError):  # the provider runs
                await reset_stored_marks(disk, VirtualClock(), "/state", LowerMarks(SHARD, 3), "uid 0")

    async def reset() -> list[int]:
        return [
            await reset_stored_marks(disk, VirtualClock(), "/state", LowerMarks(SHARD, 3), "uid 0")
            for _ in range(2)
        ]

    async def go_on() -> None:
        async with VirtualProvider(ScriptedBackend(slots()), store=stored(disk)) as provider:
            await process(provider, 3).create("m-0")
            assert provider.kit.state.fence.mark(SHARD, "m-0", 0) == (3, 1)

    run_virtual(forge())
    assert run_virtual(reset()) == [1, 0]
    run_virtual(go_on())
    lines = [json.loads(line) for line in disk.read("/state/audit.jsonl").splitlines()]
    assert [line["outcome"] for line in lines] == ["asked", "done"] * 2


@pytest.mark.rule("providers#reset-marks")
def test_a_directory_without_state_is_named_and_left_as_it_was() -> None:
    disk = MemoryDisk()
    disk.mkdir("/empty")

    async def reset(directory: str) -> int:
        return await reset_stored_marks(disk, VirtualClock(), directory, LowerMarks(SHARD, 3), "uid 0")

    for directory in ("/missing", "/empty"):
        with pytest.raises(NoStateError, match=f"{directory}: holds no state of a provider"):
            run_virtual(reset(directory))
    assert not disk.exists("/missing")
    assert "audit.jsonl" not in disk.list_names("/empty")


@pytest.mark.rule("providers#durable-state")
def test_a_reset_is_encoded_and_decoded_and_may_be_read_twice() -> None:
    changes = (
        FenceMark(SHARD, "m", FORGED, 1),
        ShardEpoch(SHARD, FORGED),
        LowerMarks(SHARD, 7),
        FenceMark(SHARD, "m", 7, 4),
    )
    assert tuple(EntryDecoder().decode(encode(changes))) == changes
    fence = Fence()
    for _ in range(2):
        for change in changes:
            if isinstance(change, FenceMark):
                fence.set(change, 0)
            elif isinstance(change, ShardEpoch):
                fence.set_epoch(change)
            elif isinstance(change, LowerMarks):
                fence.lower(change)
    assert (fence.mark(SHARD, "m", 0), fence.epoch(SHARD)) == ((7, 4), 7)


def test_marks_are_lowered_wherever_they_are_kept() -> None:
    fence = Fence()
    fence.set(FenceMark("first", "m", 9, 9), 0)
    fence.set(FenceMark(SHARD, "m", FORGED, 1), 0)  # the second shard of a known machine
    fence.set(FenceMark(SHARD, "n", FORGED, 1), 1)
    fence.set(FenceMark(SHARD, "o", FORGED, 1), None)
    fence.set(FenceMark(SHARD, "p", 6, 6), 2)
    change = LowerMarks(SHARD, 6)
    assert fence.count_above(change) == 3
    fence.lower(change)
    assert fence.count_above(change) == 0
    for machine_id, row in (("m", 0), ("n", 1), ("o", None)):
        assert fence.passes(FencingToken(SHARD, 6, -INT64_MAX), machine_id, row)
        assert not fence.passes(FencingToken(SHARD, 5, INT64_MAX), machine_id, row)
    assert (fence.mark(SHARD, "p", 2), fence.mark("first", "m", 0)) == ((6, 6), (9, 9))


def test_calls_that_wait_see_a_reset_whole(slots: MakeSlots) -> None:
    store = MemoryStore()

    async def story(provider: VirtualProvider) -> None:
        await provider.client.create("m-0", FencingToken(SHARD, FORGED, 1))
        store.hold()
        resetting = asyncio.ensure_future(provider.kit.reset_marks(SHARD, 7, "uid 0"))
        await provider.pass_time(1)
        with pytest.raises(FencedError):  # it is not durable yet
            await process(provider, 7).delete("m-0")
        store.release()
        assert await resetting == 1

    play(story, slots(), store=store)
