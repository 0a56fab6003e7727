"""Reads a demand file: YAML for people, JSON for programs."""

from bigfleet.clustersim.core.demand import SimulatedDemand, read_demand
from bigfleet.document.yaml_text import parse_text


def demand_of(text: bytes, cluster: str) -> SimulatedDemand:
    """Return the demand of a file, or refuse it by path."""
    return read_demand(parse_text(text), cluster)
