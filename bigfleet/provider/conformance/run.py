"""Runs the behaviours against a target and makes the report.

Why: the one entry for command line, pytest plugin and our own tests.
Must never: change anything before it was allowed to, run two behaviours at once, or let the end of one reach the next.
Rules: providers 2.3 and 3.
"""

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Final

from bigfleet.aio.clock import monotonic_s
from bigfleet.provider.conformance.behaviour import Behaviour, Lane, Need
from bigfleet.provider.conformance.bench import Bench
from bigfleet.provider.conformance.calls import CallLog
from bigfleet.provider.conformance.catalogue import required, selected
from bigfleet.provider.conformance.clean_up import clean_up
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
from bigfleet.provider.conformance.lab import Lab
from bigfleet.provider.conformance.probe import probe
from bigfleet.provider.conformance.report import (
    Report,
    Result,
    Status,
    judge,
    remarks,
    repeat_command,
)
from bigfleet.provider.conformance.settings import Profile, Settings, Survey

_NO_SLOTS: Final = "it is about slots, Create or Delete, which bare metal does not have"

Observer = Callable[[Result], None]


def _nobody(_result: Result) -> None:
    return None


async def run(target: str, settings: Settings, observer: Observer = _nobody) -> Report:
    """Test the provider at `host:port`; an empty target means the process that `settings.launcher` starts.

    The observer hears each result as it comes. `ConformanceError` when the run itself cannot be done.
    """
    chosen = selected(settings)
    begin_s = monotonic_s(settings.clock)
    async with AsyncExitStack() as stack:
        endpoints = await stack.enter_async_context(Endpoints(target, settings))
        await _survey(endpoints.main, settings)
        results: list[Result] = []
        for behaviour in chosen:
            result = await _run_one(behaviour, endpoints)
            results.append(result)
            observer(result)
        verdict, reasons = judge(results, required(settings))
        leftovers = endpoints.main.leftovers
        return Report(
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


async def _survey(bench: Bench, settings: Settings) -> None:
    """Look without touching, and ask for leave."""
    calls = bench.connect(CallLog())
    try:
        listing = await calls.list()
    finally:
        await calls.close()
    if not listing.ok:
        raise TargetError(bench.target, str(listing))
    touchable = sum(
        machine.state == bench.start_state and settings.may_touch(machine.id) for machine in listing.machines
    )
    if not settings.approve(Survey(bench.target, len(listing.machines), touchable)):
        raise DeclinedError(f"nobody allowed the kit to change machines at {bench.target}; nothing was done")


async def _run_one(behaviour: Behaviour, endpoints: Endpoints) -> Result:
    settings = endpoints.settings
    begin_s = monotonic_s(settings.clock)
    try:
        async with endpoints.bench_for(behaviour) as bench:
            if bench.settings.bare_metal and not behaviour.bare_metal:
                return Result(behaviour, Status.NOT_APPLICABLE, message=_NO_SLOTS)
            if behaviour.lane is not Lane.SELF_TEST:
                await _probe_once(bench)
            result = await _check(behaviour, bench, settings)
    except NotRunError as error:
        result = Result(behaviour, Status.NOT_RUN, message=str(error))
    return replace(result, seconds=monotonic_s(settings.clock) - begin_s)


async def _check(behaviour: Behaviour, bench: Bench, settings: Settings) -> Result:
    timings = settings.timings
    lab = _lab(
        behaviour.id, bench, timings.baseline_poll_s if behaviour.lane is Lane.BASELINE else timings.poll_s
    )
    status, message = Status.PASSED, ""
    try:
        try:
            _meet_needs(behaviour, lab)
            await behaviour.check(lab)
        except ViolationError as error:
            status, message = Status.FAILED, str(error)
        except SkippedError as error:
            status, message = Status.SKIPPED, str(error)
        except NoMachineError as error:
            status, message = Status.NO_MACHINE, str(error)
        except NotRunError as error:
            status, message = Status.NOT_RUN, str(error)
        sequence = lab.log.sequence()
        calls = lab.log.lines() if status is Status.FAILED else ()
        await clean_up(lab)
    finally:
        await lab.close()
    repeat = repeat_command(behaviour.id, bench.target, settings) if status is Status.FAILED else ""
    return Result(behaviour, status, 0.0, message, tuple(lab.notes), calls, sequence, repeat)


async def _probe_once(bench: Bench) -> None:
    if bench.probed or bench.disposable:
        return
    bench.probed = True
    lab = _lab("probe", bench, bench.settings.timings.poll_s)
    try:
        bench.capabilities = await probe(lab)
        await clean_up(lab)
    finally:
        await lab.close()


def _lab(name: str, bench: Bench, poll_s: float) -> Lab:
    async def run_baseline(target: str) -> tuple[str, ...]:
        return await _baseline_on(target, bench.settings)

    return Lab(name, bench, poll_s=poll_s, run_baseline=run_baseline)


def _meet_needs(behaviour: Behaviour, lab: Lab) -> None:
    if Need.SUBSTRATE in behaviour.needs and lab.settings.substrate is None:
        raise NotRunError(f"needs {Need.SUBSTRATE.value}")
    for need in behaviour.needs:
        if need not in (Need.CURSOR, Need.DELETE):
            continue
        if lab.bench.capabilities is None:
            raise NoMachineError(1, 0, "usable", lab.settings.machines)
        offered = lab.capabilities.cursor if need is Need.CURSOR else lab.capabilities.delete
        if not offered:
            raise SkippedError(f"needs {need.value}")


async def _baseline_on(target: str, settings: Settings) -> tuple[str, ...]:
    bench = Bench(target, replace(settings, machines="*", profiles=(Profile.CORE,)))
    await _probe_once(bench)
    failures = []
    for behaviour in sorted((*BASELINE, *BASELINE_FENCING), key=lambda row: row.id):
        result = await _check(behaviour, bench, settings)
        if result.status not in (Status.PASSED, Status.SKIPPED):
            failures.append(f"{behaviour.id} {result.status}: {result.message}")
    return tuple(failures)
