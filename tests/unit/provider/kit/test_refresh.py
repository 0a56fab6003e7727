"""Refresh, validation, tombstones and events of the backend.

Rules: `providers#revision`, `providers#kit`, `providers#refresh`, `providers#tombstones`.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from bigfleet.model.machine import MachineState as S
from bigfleet.provider.contract import REMOVED_LABEL, OperationKind
from bigfleet.provider.kit.backend import Op
from bigfleet.provider.kit.core.transitions import Lost, Priced
from bigfleet.provider.kit.core.values import DescribedMachine, MachineRecord
from bigfleet.provider.kit.limits import Limits
from bigfleet.provider.kit.refresh import InvalidInventoryError, Refreshed
from bigfleet.providerkit.scripted import ScriptedBackend, WatchingBackend
from bigfleet.providerkit.virtual import VirtualProvider
from bigfleet.testing.loop import run_virtual
from tests.support.builders import shape

MakeSlots = Callable[..., list[DescribedMachine]]
MINUTE = 60.0
DAY = 24 * 60 * MINUTE


@pytest.mark.rule("providers#refresh")
def test_ten_minutes_of_looking_without_news_move_no_revision(slots: MakeSlots) -> None:
    async def run() -> None:
        backend = ScriptedBackend(slots())
        async with VirtualProvider(backend) as provider:
            revision = (await provider.client.list()).revision
            await provider.pass_time(10 * MINUTE + 1)
            assert backend.described == 6  # at the start, then every two minutes
            assert (await provider.client.list()).revision == revision
            assert len((await provider.client.list(since=revision)).machines) == 0

    run_virtual(run())


def test_a_refresh_takes_new_slots_and_changed_prices_each_with_one_revision(slots: MakeSlots) -> None:
    async def run() -> None:
        backend = ScriptedBackend(slots())
        async with VirtualProvider(backend) as provider:
            before = (await provider.client.list()).revision
            backend.slots[1] = DescribedMachine("m-1", shape(price=9.0))
            backend.slots.append(DescribedMachine("new", shape(), "h"))
            assert await provider.kit.refresh() == Refreshed(added=1, changed=1)
            delta = await provider.client.list(since=before)
            assert sorted(machine.id for machine in delta.machines) == ["m-1", "new"]
            assert int(delta.revision) == int(before) + 2
            assert provider.machine("m-1").shape.price_per_hour == 9.0
            assert await provider.kit.refresh() == Refreshed()

    run_virtual(run())


def test_refreshing_can_be_turned_off(slots: MakeSlots) -> None:
    async def run() -> None:
        backend = ScriptedBackend(slots())
        async with VirtualProvider(backend, limits=Limits(refresh=0)) as provider:
            await provider.pass_time(DAY)
            assert backend.described == 1

    run_virtual(run())


def test_at_start_every_fault_is_reported_and_fatal(slots: MakeSlots) -> None:
    async def run() -> None:
        bad = [
            *slots(),
            DescribedMachine("no-zone", replace(shape(), zone="")),
            DescribedMachine("m-0", shape()),
            DescribedMachine("", shape()),
        ]
        with pytest.raises(InvalidInventoryError) as refused:
            async with VirtualProvider(ScriptedBackend(bad)):
                pass
        assert [(fault.machine_id, fault.reason) for fault in refused.value.faults] == [
            ("no-zone", "zone"),
            ("m-0", "duplicate"),
            ("", "id"),
        ]

    run_virtual(run())


def test_at_a_refresh_a_bad_record_is_skipped_and_counted(slots: MakeSlots) -> None:
    async def run() -> None:
        backend = ScriptedBackend(slots())
        async with VirtualProvider(backend) as provider:
            backend.slots[0] = DescribedMachine("m-0", shape(price=float("nan")))
            backend.slots.append(DescribedMachine("fine", shape()))
            for _ in range(5):
                assert (await provider.kit.refresh()).invalid == 1
            # It is still there, as it was: a bad record is no removal.
            assert provider.machine("m-0").shape.price_per_hour == 1.0
            assert provider.machine("m-0").state is S.SPECULATIVE
            assert provider.machine("fine").state is S.SPECULATIVE
            counted = list(provider.samples("bigfleet_provider_records_invalid_total"))
            assert counted == [({"reason": "price_per_hour"}, 5.0)]

    run_virtual(run())


@pytest.mark.rule("providers#tombstones")
def test_a_machine_that_vanished_is_a_tombstone_for_a_day_and_then_absent(slots: MakeSlots) -> None:
    async def run() -> None:
        backend = ScriptedBackend(slots(3, host=True))
        async with VirtualProvider(backend) as provider:
            revision = (await provider.client.list()).revision
            del backend.slots[1]
            await provider.pass_time(4 * MINUTE + 1)  # two answers without it
            assert provider.machine("m-1").state is S.IDLE
            await provider.pass_time(2 * MINUTE)  # the third
            delta = await provider.client.list(since=revision)
            (record,) = delta.machines
            assert (S(record.state), record.last_error.split(" ")[0]) == (S.FAILED, "removed:")
            tombstones = datetime.fromisoformat(record.labels[REMOVED_LABEL])
            now = datetime.fromtimestamp(provider.process.clock.wall_ns() / 1e9, UTC)
            assert 0 <= (now - tombstones).total_seconds() < 5
            await provider.pass_time(DAY - 5 * MINUTE)
            assert len((await provider.client.list()).machines) == 3
            revision = (await provider.client.list()).revision
            await provider.pass_time(10 * MINUTE)
            listed = await provider.client.list()
            assert sorted(machine.id for machine in listed.machines) == ["m-0", "m-2"]
            assert listed.revision == revision  # absence counts in full lists only

    run_virtual(run())


def test_a_tombstone_keeps_its_time_over_a_restart(slots: MakeSlots) -> None:
    async def run() -> None:
        backend = ScriptedBackend(slots(2, host=True))
        async with VirtualProvider(backend) as provider:
            await provider.kit.report_event(Lost("m-1", "scrapped", gone=True))
            del backend.slots[1]
            await provider.pass_time(DAY / 2)
            await provider.restart()
            await provider.pass_time(DAY / 2 - 10 * MINUTE)
            assert provider.kit.machine("m-1") is not None
            await provider.pass_time(20 * MINUTE)
            assert provider.kit.machine("m-1") is None
            await provider.restart()
            assert provider.kit.machine("m-1") is None

    run_virtual(run())


def test_an_answer_that_breaks_off_counts_as_none(slots: MakeSlots) -> None:
    async def run() -> None:
        backend = ScriptedBackend(slots())
        async with VirtualProvider(backend) as provider:
            kept = backend.slots
            for round_ in range(12):
                backend.slots = []
                # Every third answer breaks off, or is complete again: never three complete ones in a row without them.
                backend.describe_problem = OSError("api down") if round_ % 3 == 2 else None
                if round_ % 3 == 1:
                    backend.slots = kept
                await provider.pass_time(2 * MINUTE)
            assert {machine.state for machine in (provider.machine(slot.id) for slot in kept)} == {
                S.SPECULATIVE
            }
            assert "refresh_failed" in provider.log_text

    run_virtual(run())


@pytest.mark.rule("providers#tombstones")
def test_bound_machines_are_never_removed_by_a_refresh(slots: MakeSlots) -> None:
    async def run() -> None:
        backend = ScriptedBackend(slots(2, host=True))
        async with VirtualProvider(backend) as provider:
            await provider.client.configure("m-0", "c")
            await provider.settled("m-0")
            backend.slots = []
            await provider.pass_time(60 * MINUTE)
            assert provider.machine("m-0").state is S.CONFIGURED
            assert provider.machine("m-1").state is S.FAILED
            await provider.client.drain("m-0")
            await provider.settled("m-0")
            await provider.pass_time(3 * MINUTE)
            assert provider.machine("m-0").last_error.startswith("removed:")

    run_virtual(run())


def test_a_tombstone_that_is_described_again_stays_one_and_comes_back_new_after_it(slots: MakeSlots) -> None:
    async def run() -> None:
        backend = ScriptedBackend(slots(1, host=True))
        async with VirtualProvider(backend) as provider:
            await provider.kit.report_event(Lost("m-0", "pulled out", gone=True))
            await provider.pass_time(10 * MINUTE)
            assert provider.machine("m-0").state is S.FAILED
            await provider.pass_time(DAY)
            assert provider.machine("m-0").state is S.IDLE

    run_virtual(run())


def test_losses_and_prices_are_applied_as_they_are_reported(slots: MakeSlots) -> None:
    async def run() -> None:
        backend = WatchingBackend(slots(3, host=True))
        async with VirtualProvider(backend) as provider:
            await provider.client.configure("m-0", "c")
            await provider.settled("m-0")
            revision = (await provider.client.list()).revision
            backend.news.put_nowait(Lost("m-0", "interrupted: two minutes"))
            backend.news.put_nowait(Priced("m-1", price_per_hour=4.0))
            backend.news.put_nowait(Priced("m-2", price_per_hour=float("inf")))
            backend.news.put_nowait(Lost("ghost", "whatever"))
            await provider.pass_time(1)
            lost = provider.machine("m-0")
            assert (lost.state, lost.cluster, lost.last_error) == (S.FAILED, "c", "interrupted: two minutes")
            assert provider.machine("m-1").shape.price_per_hour == 4.0
            assert provider.machine("m-2").shape.price_per_hour == 1.0
            delta = await provider.client.list(since=revision)
            assert sorted(machine.id for machine in delta.machines) == ["m-0", "m-1"]

    run_virtual(run())


def test_a_watch_that_breaks_is_taken_up_again_and_one_that_ends_is_not(slots: MakeSlots) -> None:
    async def run() -> None:
        backend = WatchingBackend(slots(2, host=True))
        async with VirtualProvider(backend) as provider:
            backend.news.put_nowait(ConnectionError("queue gone"))
            await provider.pass_time(5)
            backend.news.put_nowait(Lost("m-0", "broke"))
            await provider.pass_time(5)
            assert provider.machine("m-0").state is S.FAILED
            backend.news.put_nowait(None)
            await provider.pass_time(5)
            backend.news.put_nowait(Lost("m-1", "without a watcher"))
            await provider.pass_time(5)
            assert provider.machine("m-1").state is S.IDLE
            assert '"watch_broke"' in provider.log_text
            assert '"watch_ended"' in provider.log_text

    run_virtual(run())


def test_a_loss_during_an_operation_settles_it_and_its_result_is_discarded(slots: MakeSlots) -> None:
    async def run() -> None:
        backend = ScriptedBackend(slots(1, host=True))
        async with VirtualProvider(backend) as provider:

            async def slow(_machine: MachineRecord, _op: Op) -> None:
                await provider.process.clock.sleep(30)

            backend.always(OperationKind.CONFIGURE, slow)
            await provider.client.configure("m-0", "c")
            await provider.kit.report_event(Lost("m-0", "fire"))
            await provider.pass_time(60)
            assert provider.machine("m-0").last_error == "fire"
            ended = list(provider.samples("bigfleet_provider_transition_seconds_count"))
            assert ended == [({"kind": "configure", "outcome": "discarded"}, 1.0)]

    run_virtual(run())
