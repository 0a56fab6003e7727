"""Worlds that several tests look at, made once per module."""

import pytest

from bigfleet.aio.rng import SeededRng
from bigfleet.model.machine import Machine
from bigfleet.workload.demand import ClusterDemand, generate_demand
from bigfleet.workload.fleet import generate_fleet
from bigfleet.workload.profiles import profile_named


@pytest.fixture(scope="module")
def fleet_5k() -> list[Machine]:
    return list(generate_fleet(profile_named("5k"), SeededRng(1)))


@pytest.fixture(scope="module")
def demand_5k() -> list[ClusterDemand]:
    return list(generate_demand(profile_named("5k"), SeededRng(1)))
