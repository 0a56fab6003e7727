"""What a replica asks its peers over gRPC: who they are, and to be let in.

Why: before there is a Raft link, and while no leader exists, the trailing metadata of any answer is all that is known.
Must never: keep a connection: every question dials afresh, as a peer may have moved.
Rules: coordinator 9.3 (probe), 9.4 (join loop), 4.1 (metadata).
"""

from typing import Any, Protocol

from bigfleet.aio.net import Net, RpcError
from bigfleet.aio.service import UnaryMethod
from bigfleet.coordinator.log import Membership, RaftState
from bigfleet.coordinator.raft.membership import MemberAddress
from bigfleet.coordinator.raft.startup import PeerAnswer
from bigfleet.transport.coordinator import JOIN_RAFT_CLUSTER, LIST_SHARDS, RAFT_STATE, facts_of
from bigfleet.v1alpha1 import coordinator_pb2 as pb

PROBE_S = 3.0
JOIN_S = 10.0


class PeerCalls(Protocol):
    """Questions to one peer at a time; None when it does not answer."""

    async def probe(self, grpc_address: str) -> PeerAnswer | None:
        """Ask a peer what it is."""

    async def join(self, grpc_address: str, me: MemberAddress) -> PeerAnswer | None:
        """Ask a peer to let us in; whatever it says, it also says what it is."""


class GrpcPeerCalls:
    """The questions over the network of the process."""

    def __init__(self, net: Net) -> None:
        self._net = net

    async def probe(self, grpc_address: str) -> PeerAnswer | None:
        return await self._ask(grpc_address, LIST_SHARDS, pb.ListShardsRequest(), PROBE_S, admits=False)

    async def join(self, grpc_address: str, me: MemberAddress) -> PeerAnswer | None:
        request = pb.JoinRaftClusterRequest(node_id=me.node_id, raft_address=me.raft_address)
        return await self._ask(grpc_address, JOIN_RAFT_CLUSTER, request, JOIN_S, admits=True)

    async def _ask(
        self,
        grpc_address: str,
        method: UnaryMethod[Any, Any],  # Any: either of the two calls, whose messages do not matter here
        request: object,
        timeout_s: float,
        *,
        admits: bool,
    ) -> PeerAnswer | None:
        channel = self._net.dial(grpc_address)
        try:
            reply = await channel.unary(method, request, timeout_s=timeout_s)
        except RpcError as error:
            trailing, accepted = error.trailing, False
        else:
            trailing, accepted = reply.trailing, admits
        finally:
            await channel.close()
        # A proxy, or a port that was reused, answers too; only a coordinator says in which state it is.
        if not any(key == RAFT_STATE for key, _ in trailing):
            return None
        facts = facts_of(trailing)
        return PeerAnswer(
            cluster_id=facts.cluster_id,
            membership=facts.membership or Membership.UNFORMED,
            state=facts.raft_state or RaftState.UNFORMED,
            leader=facts.leader,
            last_index=facts.last_index,
            accepted=accepted,
        )
