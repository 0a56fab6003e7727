"""Asks every voter which level of commands it knows.

Why: a new kind of command may be proposed only once no voter could meet it unprepared (decision C12).
Must never: count a voter that did not answer as one that knows.
"""

from collections.abc import Mapping
from typing import Final

from bigfleet.aio.net import Net, RpcError
from bigfleet.coordinator.core.commands import KNOWN_LEVEL
from bigfleet.coordinator.log import ReplicatedLog
from bigfleet.coordinator.maintenance import LevelsOfVoters
from bigfleet.transport.coordinator import LIST_SHARDS, facts_of
from bigfleet.v1alpha1 import coordinator_pb2 as pb

ASK_S: Final = 3.0


def levels_of_voters(log: ReplicatedLog, net: Net, known_level: int = KNOWN_LEVEL) -> LevelsOfVoters:
    """Return what asks all voters; whoever does not answer has level 0."""

    async def ask() -> Mapping[str, int]:
        status = log.status()
        found = {status.node_id: known_level}
        for peer in status.peers:
            if peer.node_id != status.node_id:
                found[peer.node_id] = await _level_at(net, peer.grpc_address)
        return found

    return ask


async def _level_at(net: Net, address: str) -> int:
    channel = net.dial(address)
    try:
        reply = await channel.unary(LIST_SHARDS, pb.ListShardsRequest(), timeout_s=ASK_S)
    except RpcError as error:
        return facts_of(error.trailing).command_level
    else:
        return facts_of(reply.trailing).command_level
    finally:
        await channel.close()
