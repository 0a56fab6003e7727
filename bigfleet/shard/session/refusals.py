"""Why a session is refused, or ended because of what its peer sent.

Why: every refusal is counted by its reason, and the reasons are a fixed list that no peer can add to.
Rules: `shard#session-opening`, `shard#session-refusals`.
"""

from enum import StrEnum

from bigfleet.aio.net import Code, RpcRefusedError


class SessionRefusal(StrEnum):
    """The reasons."""

    IDENTITY = "identity"
    """The certificate names no cluster, another one, or has ended."""
    NO_HELLO = "no_hello"
    CROWDED_OUT = "crowded_out"
    FIRST_FRAME_LARGE = "first_frame_large"
    NOT_HELLO = "not_hello"
    CLUSTER_ID = "cluster_id"
    FULL = "full"
    STOPPING = "stopping"
    UNDECODABLE = "undecodable"
    FIELDS = "fields"
    OTHER_CLUSTER = "other_cluster"


_CODES = {
    SessionRefusal.CROWDED_OUT: Code.RESOURCE_EXHAUSTED,
    SessionRefusal.FULL: Code.RESOURCE_EXHAUSTED,
    SessionRefusal.STOPPING: Code.UNAVAILABLE,
    # As gRPC libraries of other languages answer.
    SessionRefusal.UNDECODABLE: Code.INTERNAL,
}


class SessionRefusedError(RpcRefusedError):
    """A session ends because of what its peer sent or did not send, or because there is no room for it."""

    def __init__(self, reason: SessionRefusal, cluster: str, detail: str) -> None:
        """`cluster` is empty while it is not known."""
        super().__init__(_CODES.get(reason, Code.INVALID_ARGUMENT), detail)
        self.reason, self.cluster = reason, cluster
