"""Reads files of simulated demand: one cluster, or a whole fleet of machine pools and clusters.

Must never: accept part of a file; an error in one cluster refuses the file, by path.
Rules: `packaging#all-in-one`, `packaging#other-commands`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from bigfleet.clustersim.core.demand import SimulatedDemand, read_demand
from bigfleet.document.errors import from_model
from bigfleet.document.fields import REQUIRED, Fields, Form
from bigfleet.document.yaml_text import parse_text
from bigfleet.model.errors import InvalidFieldError
from bigfleet.provider.fake.inventory import POOL, Pool, pool_of

FORM: Final[Form] = {"pools": [], "clusters": REQUIRED}
FIRST_FLEET: Final = "first-fleet.yaml"


@dataclass(frozen=True, slots=True)
class SimulatedFleet:
    """Pools of machines, and the demand of each cluster."""

    pools: tuple[Pool, ...]
    clusters: Mapping[str, SimulatedDemand]


def demand_of(text: bytes, cluster: str) -> SimulatedDemand:
    """Return the demand of a YAML or JSON file for one cluster, or refuse it by path."""
    return read_demand(parse_text(text), cluster)


def read_simulated_fleet(text: bytes) -> SimulatedFleet:
    """Return the fleet of a YAML or JSON file, or refuse it by path."""
    fields = Fields(parse_text(text), FORM)
    pools, _ = fields.items("pools", POOL, pool_of)
    clusters: dict[str, SimulatedDemand] = {}
    for cluster, raw in fields.mapping("clusters").items():
        try:
            clusters[cluster] = read_demand(raw, cluster)
        except InvalidFieldError as error:
            raise from_model(error).under(f"clusters.{cluster}") from None
    return SimulatedFleet(tuple(pools), clusters)


def first_fleet() -> SimulatedFleet:
    """Return the fleet that `bigfleet all-in-one` starts with."""
    return read_simulated_fleet((files("bigfleet.clustersim") / "worlds" / FIRST_FLEET).read_bytes())
