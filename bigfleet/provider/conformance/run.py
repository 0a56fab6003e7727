"""Runs the behaviours against a target and makes the report.

Why: the one entry for command line, pytest plugin and our own tests.
Must never: change anything before it was allowed to, run two behaviours at once, or let the end of one reach the next.
Rules: `providers#verdict`, `providers#conformance`.
"""

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Final

from bigfleet.aio.clock import monotonic_s
from bigfleet.provider.conformance.admittance import refuse_stranger, require_admittance
from bigfleet.provider.conformance.behaviour import Behaviour, Lane, Prerequisite
from bigfleet.provider.conformance.caller import ListReply
from bigfleet.provider.conformance.calls import CallLog
from bigfleet.provider.conformance.catalogue import required, selected
from bigfleet.provider.conformance.clean_up import clean_up
from bigfleet.provider.conformance.context import BehaviourContext
from bigfleet.provider.conformance.endpoints import Endpoints
from bigfleet.provider.conformance.errors import (
    DeclinedError,
    NoMachineError,
    NotRunError,
    SkippedError,
    TargetError,
    ViolationError,
)
from bigfleet.provider.conformance.families.baseline import BASELINE
from bigfleet.provider.conformance.families.baseline_fencing import BASELINE_FENCING
from bigfleet.provider.conformance.probe import probe
from bigfleet.provider.conformance.report import (
    BehaviourResult,
    BehaviourStatus,
    ConformanceReport,
    judge,
    remarks,
    repeat_command,
)
from bigfleet.provider.conformance.settings import ConformanceProfile, RunSettings, Survey
from bigfleet.provider.conformance.target_endpoint import TargetEndpoint

_NO_SLOTS: Final = "it is about slots, Create or Delete, which bare metal does not have"

Observer = Callable[[BehaviourResult], None]


def _nobody(_result: BehaviourResult) -> None:
    return None


async def run(target: str, settings: RunSettings, observer: Observer = _nobody) -> ConformanceReport:
    """Test the provider at `host:port`; an empty target means the process that `settings.launcher` starts.

    The observer hears each result as it comes. `ConformanceError` when the run itself cannot be done.
    """
    chosen = selected(settings)
    begin_s = monotonic_s(settings.clock)
    async with AsyncExitStack() as stack:
        endpoints = await stack.enter_async_context(Endpoints(target, settings))
        await _survey(endpoints.main, settings)
        results: list[BehaviourResult] = []
        for behaviour in chosen:
            result = await _run_one(behaviour, endpoints)
            results.append(result)
            observer(result)
        verdict, reasons = judge(results, required(settings))
        leftovers = endpoints.main.leftovers
        return ConformanceReport(
            target=endpoints.main.target,
            run_id=settings.run_id,
            seed=settings.seed,
            profiles=tuple(settings.profiles),
            verdict=verdict,
            reasons=reasons,
            results=tuple(results),
            notes=(*endpoints.notes, *remarks(results)),
            leftovers=tuple(f"{key}: {leftovers[key]}" for key in sorted(leftovers)),
            seconds=monotonic_s(settings.clock) - begin_s,
        )


async def _survey(endpoint: TargetEndpoint, settings: RunSettings) -> None:
    """Look without touching, ask for leave, and find out whether the target admits the kit."""
    calls = endpoint.connect(CallLog())
    try:
        listing = await calls.list()
        refuse_stranger(endpoint.target, listing)
        if not listing.ok:
            raise TargetError(endpoint.target, str(listing))
        _ask_for_leave(endpoint, settings, listing)
        if settings.secured:
            await require_admittance(endpoint.target, calls, settings.run_id)
    finally:
        await calls.close()


def _ask_for_leave(endpoint: TargetEndpoint, settings: RunSettings, listing: ListReply) -> None:
    touchable = sum(
        machine.state == endpoint.start_state and settings.may_touch(machine.id)
        for machine in listing.machines
    )
    if not settings.approve(Survey(endpoint.target, len(listing.machines), touchable)):
        raise DeclinedError(f"not allowed to change machines at {endpoint.target}; nothing was done")


async def _run_one(behaviour: Behaviour, endpoints: Endpoints) -> BehaviourResult:
    settings = endpoints.settings
    begin_s = monotonic_s(settings.clock)
    try:
        async with endpoints.bench_for(behaviour) as endpoint:
            if endpoint.settings.bare_metal and not behaviour.bare_metal:
                return BehaviourResult(behaviour, BehaviourStatus.NOT_APPLICABLE, message=_NO_SLOTS)
            if behaviour.lane is not Lane.SELF_TEST:
                await _probe_once(endpoint)
            result = await _check(behaviour, endpoint, settings)
    except NotRunError as error:
        result = BehaviourResult(behaviour, BehaviourStatus.NOT_RUN, message=str(error))
    return replace(result, seconds=monotonic_s(settings.clock) - begin_s)


async def _check(behaviour: Behaviour, endpoint: TargetEndpoint, settings: RunSettings) -> BehaviourResult:
    timings = settings.timings
    context = _lab(
        behaviour.id, endpoint, timings.baseline_poll_s if behaviour.lane is Lane.BASELINE else timings.poll_s
    )
    status, message = BehaviourStatus.PASSED, ""
    try:
        try:
            _meet_needs(behaviour, context)
            await behaviour.check(context)
        except ViolationError as error:
            status, message = BehaviourStatus.FAILED, str(error)
        except SkippedError as error:
            status, message = BehaviourStatus.SKIPPED, str(error)
        except NoMachineError as error:
            status, message = BehaviourStatus.NO_MACHINE, str(error)
        except NotRunError as error:
            status, message = BehaviourStatus.NOT_RUN, str(error)
        sequence = context.log.sequence()
        calls = context.log.lines() if status is BehaviourStatus.FAILED else ()
        await clean_up(context)
    finally:
        await context.close()
    repeat = (
        repeat_command(behaviour.id, endpoint.target, settings) if status is BehaviourStatus.FAILED else ""
    )
    return BehaviourResult(behaviour, status, 0.0, message, tuple(context.notes), calls, sequence, repeat)


async def _probe_once(endpoint: TargetEndpoint) -> None:
    if endpoint.probed or endpoint.disposable:
        return
    endpoint.probed = True
    context = _lab("probe", endpoint, endpoint.settings.timings.poll_s)
    try:
        endpoint.capabilities = await probe(context)
        await clean_up(context)
    finally:
        await context.close()


def _lab(name: str, endpoint: TargetEndpoint, poll_s: float) -> BehaviourContext:
    async def run_baseline(target: str) -> tuple[str, ...]:
        return await _baseline_on(target, endpoint.settings)

    return BehaviourContext(name, endpoint, poll_s=poll_s, run_baseline=run_baseline)


def _meet_needs(behaviour: Behaviour, context: BehaviourContext) -> None:
    if Prerequisite.SUBSTRATE in behaviour.needs and context.settings.substrate is None:
        raise NotRunError(f"needs {Prerequisite.SUBSTRATE.value}")
    for need in behaviour.needs:
        if need not in (Prerequisite.CURSOR, Prerequisite.DELETE):
            continue
        if context.endpoint.capabilities is None:
            raise NoMachineError(1, 0, "usable", context.settings.machines)
        offered = context.capabilities.cursor if need is Prerequisite.CURSOR else context.capabilities.delete
        if not offered:
            raise SkippedError(f"needs {need.value}")


async def _baseline_on(target: str, settings: RunSettings) -> tuple[str, ...]:
    endpoint = TargetEndpoint(target, replace(settings, machines="*", profiles=(ConformanceProfile.CORE,)))
    await _probe_once(endpoint)
    failures = []
    for behaviour in sorted((*BASELINE, *BASELINE_FENCING), key=lambda row: row.id):
        result = await _check(behaviour, endpoint, settings)
        if result.status not in (BehaviourStatus.PASSED, BehaviourStatus.SKIPPED):
            failures.append(f"{behaviour.id} {result.status}: {result.message}")
    return tuple(failures)
