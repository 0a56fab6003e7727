"""Sets the kit on a model, honest or broken, for all lanes at once.

Why: the self-check asks of every violation who notices it; that needs a target, a launcher, a fault endpoint and a
substrate made of the same model.
Must never: relax a check; it only shortens the long waits.
Rules: `providers#self-check`.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Final

from bigfleet.aio.clock import Clock
from bigfleet.aio.net import Net
from bigfleet.provider.conformance.reference.model import ReferenceProvider
from bigfleet.provider.conformance.reference.serve import ReferenceLauncher, served
from bigfleet.provider.conformance.reference.values import ReferenceOptions
from bigfleet.provider.conformance.settings import ConformanceProfile, RunSettings, RunSizes, Timings
from tests.support.conformance.violation import Place, Violation

SLOTS: Final = 64
LATENCY_S: Final = 0.03
TIMINGS: Final = Timings(soak_s=0.3, storm_s=0.3, clean_up_s=0.5)
SIZES: Final = RunSizes(scale_seed=100, kills=2)
PROFILES: Final = tuple(
    profile for profile in ConformanceProfile if profile is not ConformanceProfile.BARE_METAL
)


@asynccontextmanager
async def set_up(
    net: Net, clock: Clock, violation: Violation | None = None, *, latency_s: float = LATENCY_S
) -> AsyncIterator[tuple[str, RunSettings]]:
    """Yield target and settings for a run of every lane against the model with this violation, or the honest one."""
    broken = violation.model if violation and violation.place is Place.TARGET else ReferenceProvider
    own = violation.model if violation and violation.place is Place.SELF else ReferenceProvider
    options = ReferenceOptions(slots=SLOTS, latency_s=latency_s)
    faulty = replace(options, faults=True, timeout_s=TIMINGS.transition_timeout_s)
    target_model = broken(clock, options)
    async with AsyncExitStack() as stack:
        target = await stack.enter_async_context(served(net, target_model))
        settings = RunSettings(
            net=net,
            clock=clock,
            run_id="self-check",
            profiles=PROFILES,
            extra=True,
            timings=TIMINGS,
            sizes=SIZES,
            launcher=ReferenceLauncher(net, clock, options, broken),
            fault_target=await stack.enter_async_context(served(net, broken(clock, faulty))),
            fault_launcher=ReferenceLauncher(
                net, clock, replace(faulty, timeout_s=TIMINGS.durable_timeout_s), broken
            ),
            substrate=target_model,
            model=own,
        )
        yield target, settings
