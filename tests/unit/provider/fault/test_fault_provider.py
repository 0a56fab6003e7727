"""Each trigger of the fault convention causes its fault and no other (`providers#fault-convention`)."""

import pytest

from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.machine import CapacityType
from bigfleet.model.machine import MachineState as S
from bigfleet.provider.fault.backend import CREATE_LABEL, FaultBackend, FaultOptions
from bigfleet.providerkit.virtual import VirtualProvider
from bigfleet.testing.loop import run_virtual
from bigfleet.testing.process import virtual_process

TIMEOUT_S = 2.0


def fault(options: FaultOptions | None = None) -> VirtualProvider:
    chosen, process = options or FaultOptions(seed_count=6), virtual_process("provider")
    return VirtualProvider(FaultBackend(chosen, process.clock), process=process, limits=chosen.limits())


async def idle(provider: VirtualProvider, machine_id: str = "fault-000") -> str:
    await provider.client.create(machine_id)
    assert (await provider.settled(machine_id))[0].state is S.IDLE
    return machine_id


def test_it_begins_with_the_slots_of_the_convention() -> None:
    async def scene() -> None:
        async with fault(FaultOptions()) as provider:
            listed = (await provider.client.list()).machines
            ordinary = [machine for machine in listed if CREATE_LABEL not in machine.labels]
            assert (len(listed), len(ordinary)) == (72, 64)
            spot = [machine for machine in ordinary if machine.capacity_type == int(CapacityType.SPOT)]
            assert len(spot) == 21
            assert {(round(m.price_per_hour, 2), round(m.interruption_probability, 2)) for m in spot} == {
                (0.12, 0.05)
            }
            assert {machine.instance_type for machine in listed} == {"fault-standard-4"}
            assert {machine.zone for machine in listed} == {"fault-zone-a"}
            assert dict(listed[0].resources.resources) == {"cpu": "4", "memory": "16Gi"}

    run_virtual(scene())


def test_without_a_trigger_everything_succeeds() -> None:
    async def scene() -> None:
        async with fault() as provider:
            machine_id = await idle(provider)
            await provider.client.configure(machine_id, "prod")
            assert (await provider.settled(machine_id))[0].state is S.CONFIGURED
            await provider.client.drain(machine_id)
            assert (await provider.settled(machine_id))[0].state is S.IDLE
            await provider.client.delete(machine_id)
            assert (await provider.settled(machine_id))[0].state is S.SPECULATIVE

    run_virtual(scene())


def test_a_labelled_slot_fails_in_create() -> None:
    async def scene() -> None:
        async with fault() as provider:
            await provider.client.create("fault-create-error-0")
            (machine,) = await provider.settled("fault-create-error-0")
            assert machine.state is S.FAILED
            assert machine.last_error.startswith("create failed:")

    run_virtual(scene())


@pytest.mark.parametrize(
    ("cluster", "earliest_s", "error"),
    [
        ("fault-error", 0.0, "configure failed: cluster fault-error was asked for"),
        ("fault-timeout", TIMEOUT_S, "configure timed out after 2 s"),
        ("fault-slow-ok", TIMEOUT_S, "configure timed out after 2 s"),
        ("fault-readiness-block", TIMEOUT_S, "configure timed out after 2 s"),
    ],
)
def test_a_cluster_is_a_trigger(cluster: str, earliest_s: float, error: str) -> None:
    async def scene() -> None:
        async with fault() as provider:
            machine_id = await idle(provider)
            begin_ns = provider.process.clock.monotonic_ns()
            await provider.client.configure(machine_id, cluster)
            (machine,) = await provider.settled(machine_id)
            assert machine.state is S.FAILED
            assert (machine.cluster, machine.last_error) == (cluster, error)
            assert provider.process.clock.monotonic_ns() - begin_ns >= earliest_s * 10**9
            await provider.pass_time(5)
            assert provider.machine(machine_id).state is S.FAILED  # also after a late success

    run_virtual(scene())


def test_the_late_success_comes_and_is_thrown_away() -> None:
    async def scene() -> None:
        async with fault() as provider:
            machine_id = await idle(provider)
            await provider.client.configure(machine_id, "fault-slow-ok")
            await provider.settled(machine_id)
            assert "late_result_discarded" not in provider.log_text
            await provider.pass_time(1.5)
            assert "late_result_discarded" in provider.log_text
            assert '"ended": "succeeded"' in provider.log_text

    run_virtual(scene())


def test_a_drain_fails_after_a_good_configure() -> None:
    async def scene() -> None:
        async with fault() as provider:
            machine_id = await idle(provider)
            await provider.client.configure(machine_id, "fault-drain-error")
            assert (await provider.settled(machine_id))[0].state is S.CONFIGURED
            await provider.client.drain(machine_id)
            (machine,) = await provider.settled(machine_id)
            assert machine.state is S.FAILED
            assert machine.last_error.startswith("drain failed:")

    run_virtual(scene())


def test_the_name_is_part_of_ids_and_hosts() -> None:
    async def scene() -> None:
        options = FaultOptions(provider="acme", seed_count=1)
        async with fault(options) as provider:
            assert next(m.id for m in (await provider.client.list()).machines) == "acme-000"

    run_virtual(scene())


@pytest.mark.parametrize(
    "fields", [{"seed_count": -1}, {"seed_count": 2_000_000}, {"transition_timeout_s": 0}]
)
def test_options_that_cannot_be_are_refused(fields: dict[str, int]) -> None:
    with pytest.raises(InvalidFieldError):
        FaultOptions(**fields)  # type: ignore[arg-type]  # mypy reads the map as if it could hold the name
