"""The six methods of the provider service with their message types, for every client and server.

Why: shard client, test client, conformance kit and servers share one table. It is apart from `contract`, which cores
import and which therefore knows no message.
Rules: `wire#listing`.
"""

from typing import Final, TypeVar

from bigfleet.aio.service import ServiceSpec
from bigfleet.v1alpha1 import provider_pb2 as pb

PROVIDER: Final = ServiceSpec(pb.DESCRIPTOR.services_by_name["CapacityProvider"])

MutatingRequest = TypeVar(
    "MutatingRequest", pb.CreateRequest, pb.ConfigureRequest, pb.DrainRequest, pb.DeleteRequest
)
"""A request that carries a fencing token."""

CREATE: Final = PROVIDER.unary("Create", pb.CreateRequest, pb.TransitionAck)
CONFIGURE: Final = PROVIDER.unary("Configure", pb.ConfigureRequest, pb.TransitionAck)
DRAIN: Final = PROVIDER.unary("Drain", pb.DrainRequest, pb.TransitionAck)
DELETE: Final = PROVIDER.unary("Delete", pb.DeleteRequest, pb.TransitionAck)
GET: Final = PROVIDER.unary("Get", pb.MachineRef, pb.Machine)
LIST: Final = PROVIDER.unary("List", pb.ListFilter, pb.MachineList)
ENCODED_LIST: Final = LIST.decoded_by(bytes)
"""List for callers that read the listing themselves."""
