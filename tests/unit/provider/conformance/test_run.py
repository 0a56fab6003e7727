"""A whole run: what it asks, what it leaves behind, and what it says of providers of every kind."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from bigfleet.aio.net import Call, Code, RpcRefusedError
from bigfleet.provider.conformance.errors import DeclinedError, LaunchError, TargetError
from bigfleet.provider.conformance.reference.model import ReferenceProvider
from bigfleet.provider.conformance.reference.serve import ReferenceLauncher, served
from bigfleet.provider.conformance.reference.values import ReferenceOptions
from bigfleet.provider.conformance.report import BehaviourStatus, ConformanceReport, RunVerdict
from bigfleet.provider.conformance.run import run
from bigfleet.provider.conformance.settings import (
    ConformanceProfile,
    RunSettings,
    RunSizes,
    StartedProvider,
    Survey,
)
from bigfleet.testing.clock import VirtualClock
from bigfleet.testing.loop import run_virtual
from bigfleet.testing.net.links import SteadyLink
from bigfleet.testing.net.network import Network
from bigfleet.v1alpha1 import provider_pb2 as pb
from tests.support.conformance.self_check import PROFILES, TIMINGS

Check = Callable[..., ConformanceReport]
BAD = (BehaviourStatus.FAILED, BehaviourStatus.NO_MACHINE, BehaviourStatus.NOT_RUN)


def test_an_honest_provider_is_certified_for_every_profile_at_once(self_check: Check) -> None:
    report = self_check()
    assert report.ids(*BAD) == ()
    assert (report.verdict, report.reasons) == (RunVerdict.CERTIFIED, ())
    assert len(report.results) == 132
    # The one machine that X11 took away at the substrate cannot come back.
    assert [line.split(":")[2] for line in report.leftovers] == [" gone from the substrate'"]


@pytest.mark.parametrize(("seed", "latency_s"), [(2, 0.0), (3, 0.2)])
def test_an_honest_provider_fails_nothing_whether_it_is_synchronous_or_slow(
    self_check: Check, seed: int, latency_s: float
) -> None:
    report = self_check(
        latency_s=latency_s, seed=seed, only=("A0?", "A1?", "B[1-4]0[1-6]", "B90[3-5]", "B100[1-4]")
    )
    assert report.ids(*BAD) == ()
    assert report.leftovers == ()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_an_honest_provider_fails_nothing_over_twenty_seeds(self_check: Check, seed: int) -> None:
    report = self_check(seed=seed)
    assert report.verdict is RunVerdict.CERTIFIED


@pytest.mark.rule("providers#conformance-determinism")
def test_same_seed_same_calls(self_check: Check) -> None:
    chosen = ("A0[1-5]", "B10?", "B40[1-4]", "B120*")
    once, twice = (self_check(seed=5, only=chosen) for _ in range(2))
    for before, after in zip(once.results, twice.results, strict=True):
        assert before.sequence == after.sequence, before.behaviour.id
    other = self_check(seed=6, only=("B120*",))
    assert all(result.sequence != once.result(result.behaviour.id).sequence for result in other.results)


def test_slots_are_taken_by_sorted_id_and_given_back(on_model: Check) -> None:
    taken: list[str] = []

    class Shuffled(ReferenceProvider):
        """Lists in an order of its own."""

        async def list(self, request: pb.ListFilter, call: Call) -> pb.MachineList:
            answer = await super().list(request, call)
            answer.machines.sort(key=lambda machine: machine.id[::-1])
            return answer

        async def create(self, request: pb.CreateRequest, call: Call) -> pb.TransitionAck:
            taken.append(request.machine_id)
            return await super().create(request, call)

    report = on_model(ReferenceOptions(slots=8), Shuffled, only=("A01", "A12", "A13", "X12"))
    assert report.ids(*BAD) == ()
    # The probe has the first, then each behaviour those that were used least; A13 drains a slot and creates none.
    assert taken == ["slot-00000", "slot-00001", "slot-00002"]


@pytest.mark.rule("providers#verdict")
def test_a_provider_without_slots_is_incomplete_as_core_and_judged_as_bare_metal(on_model: Check) -> None:
    options = ReferenceOptions(slots=0, idle=32, delete=False, latency_s=0.03)
    core = on_model(options, profiles=(ConformanceProfile.CORE,))
    assert core.verdict is RunVerdict.INCOMPLETE
    assert "B303" in core.ids(BehaviourStatus.NO_MACHINE)
    metal = on_model(options, profiles=(ConformanceProfile.BARE_METAL,))
    assert (metal.verdict, metal.reasons) == (RunVerdict.CERTIFIED, ())
    left_out = metal.ids(BehaviourStatus.NOT_APPLICABLE)
    assert left_out == ("A02", "A05", "A13", "A15", "B109", "B202", "B401", "B407", "B409", "B807", "X05")
    assert f"not applicable to bare metal: {', '.join(left_out)}" in metal.notes
    assert metal.result("B303").status is BehaviourStatus.PASSED


def test_a_fence_that_is_missing_is_noticed_on_bare_metal_too(on_model: Check) -> None:
    class Unfenced(ReferenceProvider):
        def newer(self, token: object, mark: object) -> bool:
            return True

    report = on_model(
        ReferenceOptions(slots=0, idle=16, delete=False), Unfenced, profiles=(ConformanceProfile.BARE_METAL,)
    )
    assert report.verdict is RunVerdict.FAILED
    assert {"A17", "B302", "B303", "B311", "B1204"} <= set(report.ids(BehaviourStatus.FAILED))


def test_a_provider_without_delete_and_revision_is_certified_with_skips(on_model: Check) -> None:
    options = ReferenceOptions(slots=220, delete=False, cursor=False)
    report = on_model(options)
    assert (report.verdict, report.reasons) == (RunVerdict.CERTIFIED, ())
    assert set(report.ids(BehaviourStatus.SKIPPED)) == {
        "A05",
        "A12",
        "B109",
        "B409",
        "B807",
        "B903",
        "B904",
        "B905",
        "B907",
        "B908",
        "B909",
    }
    assert len(report.leftovers) > 100  # Idle machines that cannot be given back are named


def test_only_machines_that_the_pattern_allows_are_touched(on_model: Check) -> None:
    touched: set[str] = set()

    class Watched(ReferenceProvider):
        async def mutate(self, kind: object, request: object, call: Call) -> pb.TransitionAck:
            touched.add(request.machine_id)  # type: ignore[attr-defined]  # all four have it
            return await super().mutate(kind, request, call)  # type: ignore[arg-type]

    report = on_model(ReferenceOptions(slots=60), Watched, machines="slot-0001?", only=("A*", "B3*"))
    assert report.ids(*BAD) == ()
    real = {machine_id for machine_id in touched if machine_id.startswith("slot")}
    assert real == {f"slot-0001{digit}" for digit in range(10)}


def test_without_cleanup_machines_stay_as_they_were_left_and_are_named(on_model: Check) -> None:
    report = on_model(ReferenceOptions(), clean_up=False, only=("A14",))
    assert report.result("A14").status is BehaviourStatus.PASSED
    assert any("left as it was" in line for line in report.leftovers)


def test_nothing_is_changed_before_somebody_allowed_it() -> None:
    async def declined() -> tuple[list[Survey], bytes]:
        net, clock = Network().host("kit"), VirtualClock()
        model, asked = ReferenceProvider(clock, ReferenceOptions(slots=5)), []

        def decline(survey: Survey) -> bool:
            asked.append(survey)
            return False

        async with served(net, model) as target:
            with pytest.raises(DeclinedError):
                await run(
                    target,
                    RunSettings(net=net, clock=clock, run_id="r", machines="*-0000[01]", approve=decline),
                )
        return asked, model.revision()

    ((survey,), revision) = run_virtual(declined())
    assert (survey.machines, survey.touchable, revision) == (5, 2, b"0")


def test_a_target_that_nobody_serves_is_an_error_of_the_run() -> None:
    async def nobody() -> None:
        net = Network().host("kit")
        await run("127.0.0.1:9", RunSettings(net=net, clock=VirtualClock(), run_id="r"))

    with pytest.raises(TargetError, match=r"no provider answers at 127\.0\.0\.1:9: UNAVAILABLE"):
        run_virtual(nobody())


def test_what_needs_a_process_is_not_run_without_one(on_model: Check) -> None:
    report = on_model(ReferenceOptions(), only=("A06", "B1001", "B1006", "B1101"))
    assert report.verdict is RunVerdict.INCOMPLETE
    assert report.ids(BehaviourStatus.NOT_RUN) == ("B1001", "B1101")
    assert report.result("B1006").status is BehaviourStatus.PASSED  # the kit's own provider stands in
    assert any("B1006 ran on the kit's own provider" in note for note in report.notes)


def test_without_a_target_the_started_process_is_tested() -> None:
    async def launched() -> ConformanceReport:
        net, clock = Network(policy=SteadyLink(0.0002)).host("kit"), VirtualClock()
        launcher = ReferenceLauncher(net, clock, ReferenceOptions(latency_s=0.03))
        settings = RunSettings(
            net=net, clock=clock, run_id="r", launcher=launcher, only=("A01", "B1001", "B1003")
        )
        return await run("", settings)

    assert run_virtual(launched()).ids(BehaviourStatus.PASSED) == ("A01", "B1001", "B1003")


def test_a_process_that_does_not_come_up_again_fails_its_behaviour() -> None:
    class OnceOnly(ReferenceLauncher):
        started = 0

        async def start(self, state: str, seed_count: int) -> StartedProvider:  # type: ignore[override]
            self.started += 1
            if self.started == 2:
                raise LaunchError("the state file is damaged")
            return await super().start(state, seed_count)

    async def launched() -> ConformanceReport:
        net, clock = Network().host("kit"), VirtualClock()
        launcher = OnceOnly(net, clock, ReferenceOptions())
        async with served(net, ReferenceProvider(clock, ReferenceOptions())) as target:
            settings = RunSettings(net=net, clock=clock, run_id="r", launcher=launcher, only=("B1001",))
            return await run(target, settings)

    result = run_virtual(launched()).result("B1001")
    assert result.status is BehaviourStatus.FAILED
    assert "does not come up again: the state file is damaged" in result.message


def test_no_task_and_no_connection_outlives_a_run() -> None:
    async def left() -> set[str]:
        net, clock = Network().host("kit"), VirtualClock()
        async with served(net, ReferenceProvider(clock, ReferenceOptions(latency_s=0.01))) as target:
            await run(
                target,
                RunSettings(
                    net=net,
                    clock=clock,
                    run_id="r",
                    profiles=PROFILES,
                    timings=TIMINGS,
                    sizes=replace(RunSizes(), scale_seed=100),
                    only=("A0*", "A26", "B40*", "B70*"),
                ),
            )
        await clock.sleep(60)
        return {task.get_name() for task in asyncio.all_tasks()} - {asyncio.current_task().get_name()}  # type: ignore[union-attr]

    assert run_virtual(left()) == set()


def test_a_provider_that_breaks_down_fails_behaviours_and_does_not_end_the_run(on_model: Check) -> None:
    class Mortal(ReferenceProvider):
        async def get(self, request: pb.MachineRef, call: Call) -> pb.Machine:
            raise RpcRefusedError(Code.INTERNAL, "out of order")

    report = on_model(ReferenceOptions(), Mortal, only=("A0[1-8]",))
    assert report.ids(BehaviourStatus.FAILED) == ("A01", "A03", "A04", "A05", "A06", "A08")
    assert report.ids(BehaviourStatus.PASSED) == ("A02", "A07")
    assert "INTERNAL: out of order" in report.result("A01").message
