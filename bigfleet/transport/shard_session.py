"""The session between operator and shard, as those who dial it name it.

Rules: `wire#session`.
"""

from typing import Final

from bigfleet.aio.service import BidiMethod, ServiceSpec
from bigfleet.v1alpha1 import shard_pb2

SHARD: Final = ServiceSpec(shard_pb2.DESCRIPTOR.services_by_name["Shard"])
# Frames are encoded before they are sent, so that equal demand is equal bytes; what comes back is read as usual.
SESSION: Final["BidiMethod[bytes, shard_pb2.ShardMessage]"] = BidiMethod(
    SHARD.bidi("Session", shard_pb2.OperatorMessage, shard_pb2.ShardMessage).path,
    shard_pb2.ShardMessage.FromString,
)
