"""Every kind of our group, in the order in which the chart and the docs show them."""

from typing import Final

from bigfleet.kube.crds.available_capacity import AVAILABLE_CAPACITY
from bigfleet.kube.crds.capacity_request import CAPACITY_REQUEST
from bigfleet.kube.crds.definition import Definition
from bigfleet.kube.crds.upcoming_node import UPCOMING_NODE

DEFINITIONS: Final[tuple[Definition, ...]] = (CAPACITY_REQUEST, AVAILABLE_CAPACITY, UPCOMING_NODE)
