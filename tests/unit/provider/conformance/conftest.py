"""The kit on a virtual network and clock: runs of minutes take moments, and twice the same run is the same run."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from bigfleet.provider.conformance.reference.model import ReferenceProvider
from bigfleet.provider.conformance.reference.serve import served
from bigfleet.provider.conformance.reference.values import ReferenceOptions
from bigfleet.provider.conformance.report import BehaviourResult, ConformanceReport
from bigfleet.provider.conformance.run import run
from bigfleet.provider.conformance.settings import RunSettings
from bigfleet.testing.clock import VirtualClock
from bigfleet.testing.loop import run_virtual
from bigfleet.testing.net.links import SteadyLink
from bigfleet.testing.net.network import Network
from tests.support.conformance.self_check import LATENCY_S, set_up
from tests.support.conformance.violation import Violation

HOP_S = 0.0002

Check = Callable[..., ConformanceReport]


async def _self_check(
    violation: Violation | None, latency_s: float, changes: dict[str, Any]
) -> ConformanceReport:
    net, clock = Network(policy=SteadyLink(HOP_S)).host("kit"), VirtualClock()
    async with set_up(net, clock, violation, latency_s=latency_s) as (target, settings):
        return await run(target, replace(settings, **changes))


async def _on_model(
    options: ReferenceOptions,
    make: type[ReferenceProvider],
    observer: Callable[[BehaviourResult], None],
    changes: dict[str, Any],
) -> ConformanceReport:
    net, clock = Network(policy=SteadyLink(HOP_S)).host("kit"), VirtualClock()
    async with served(net, make(clock, options)) as target:
        return await run(target, RunSettings(net=net, clock=clock, run_id="unit", **changes), observer)


@pytest.fixture
def self_check() -> Check:
    """Run every lane against the kit's own model, honest or with a violation."""

    def check(
        violation: Violation | None = None, latency_s: float = LATENCY_S, **changes: Any
    ) -> ConformanceReport:
        return run_virtual(_self_check(violation, latency_s, changes))

    return check


@pytest.fixture
def on_model() -> Check:
    """Run the kit against a model of one's own choice."""

    def check(
        options: ReferenceOptions,
        make: type[ReferenceProvider] = ReferenceProvider,
        observer: Callable[[BehaviourResult], None] = lambda _result: None,
        **changes: Any,
    ) -> ConformanceReport:
        return run_virtual(_on_model(options, make, observer, changes))

    return check
