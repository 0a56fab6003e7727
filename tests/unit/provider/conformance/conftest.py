"""The kit on a virtual network and clock: runs of minutes take moments, and twice the same run is the same run."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from bigfleet.provider.conformance.report import Report, Result
from bigfleet.provider.conformance.run import run
from bigfleet.provider.conformance.settings import Settings
from bigfleet.provider.conformance.zoo.model import Model
from bigfleet.provider.conformance.zoo.self_check import LATENCY_S, set_up
from bigfleet.provider.conformance.zoo.serve import served
from bigfleet.provider.conformance.zoo.values import ModelOptions
from bigfleet.provider.conformance.zoo.violation import Violation
from bigfleet.testing.clock import VirtualClock
from bigfleet.testing.loop import run_virtual
from bigfleet.testing.net.links import SteadyLink
from bigfleet.testing.net.network import Network

HOP_S = 0.0002

Check = Callable[..., Report]


async def _self_check(violation: Violation | None, latency_s: float, changes: dict[str, Any]) -> Report:
    net, clock = Network(policy=SteadyLink(HOP_S)).host("kit"), VirtualClock()
    async with set_up(net, clock, violation, latency_s=latency_s) as (target, settings):
        return await run(target, replace(settings, **changes))


async def _on_model(
    options: ModelOptions, make: type[Model], observer: Callable[[Result], None], changes: dict[str, Any]
) -> Report:
    net, clock = Network(policy=SteadyLink(HOP_S)).host("kit"), VirtualClock()
    async with served(net, make(clock, options)) as target:
        return await run(target, Settings(net=net, clock=clock, run_id="unit", **changes), observer)


@pytest.fixture
def self_check() -> Check:
    """Run every lane against the kit's own model, honest or with a violation."""

    def check(violation: Violation | None = None, latency_s: float = LATENCY_S, **changes: Any) -> Report:
        return run_virtual(_self_check(violation, latency_s, changes))

    return check


@pytest.fixture
def on_model() -> Check:
    """Run the kit against a model of one's own choice."""

    def check(
        options: ModelOptions,
        make: type[Model] = Model,
        observer: Callable[[Result], None] = lambda _result: None,
        **changes: Any,
    ) -> Report:
        return run_virtual(_on_model(options, make, observer, changes))

    return check
