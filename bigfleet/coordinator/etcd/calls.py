"""The calls of etcd that the log uses, by etcd's own paths, and short forms of their requests.

Why: no generated service can name a method of another project's package, and a transaction is unreadable as nested messages.
Must never: talk to anybody.
Rules: `coordinator#etcd-client`.
"""

from collections.abc import Sequence
from typing import Final

from bigfleet.aio.service import BidiMethod, UnaryMethod
from bigfleet.etcd.v3 import etcd_pb2 as pb

RANGE: Final[UnaryMethod[pb.RangeRequest, pb.RangeResponse]] = UnaryMethod(
    "/etcdserverpb.KV/Range", pb.RangeResponse.FromString
)
TXN: Final[UnaryMethod[pb.TxnRequest, pb.TxnResponse]] = UnaryMethod(
    "/etcdserverpb.KV/Txn", pb.TxnResponse.FromString
)
GRANT: Final[UnaryMethod[pb.LeaseGrantRequest, pb.LeaseGrantResponse]] = UnaryMethod(
    "/etcdserverpb.Lease/LeaseGrant", pb.LeaseGrantResponse.FromString
)
REVOKE: Final[UnaryMethod[pb.LeaseRevokeRequest, pb.LeaseRevokeResponse]] = UnaryMethod(
    "/etcdserverpb.Lease/LeaseRevoke", pb.LeaseRevokeResponse.FromString
)
KEEP_ALIVE: Final[BidiMethod[pb.LeaseKeepAliveRequest, pb.LeaseKeepAliveResponse]] = BidiMethod(
    "/etcdserverpb.Lease/LeaseKeepAlive", pb.LeaseKeepAliveResponse.FromString
)
WATCH: Final[BidiMethod[pb.WatchRequest, pb.WatchResponse]] = BidiMethod(
    "/etcdserverpb.Watch/Watch", pb.WatchResponse.FromString
)
AUTHENTICATE: Final[UnaryMethod[pb.AuthenticateRequest, pb.AuthenticateResponse]] = UnaryMethod(
    "/etcdserverpb.Auth/Authenticate", pb.AuthenticateResponse.FromString
)
STATUS: Final[UnaryMethod[pb.StatusRequest, pb.StatusResponse]] = UnaryMethod(
    "/etcdserverpb.Maintenance/Status", pb.StatusResponse.FromString
)
ALARMS: Final[UnaryMethod[pb.AlarmRequest, pb.AlarmResponse]] = UnaryMethod(
    "/etcdserverpb.Maintenance/Alarm", pb.AlarmResponse.FromString
)

_CREATED, _VALUE = 1, 3  # the targets of a comparison; its result 0, equal, is the default
DELETED: Final = 1
"""The type of an event that tells of a deletion."""
WITHOUT_DELETIONS: Final = 1
"""The filter of a watch that is told of writes only."""


def behind(prefix: bytes) -> bytes:
    """Return the key behind all keys with a prefix, whose last byte is not 255."""
    return prefix[:-1] + bytes((prefix[-1] + 1,))


def created_at(key: bytes, revision: int) -> pb.Compare:
    """Hold if the key was created at this revision; 0 if it does not exist."""
    return pb.Compare(target=_CREATED, key=key, create_revision=revision)


def has_value(key: bytes, value: bytes) -> pb.Compare:
    """Hold if the key exists and has this value."""
    return pb.Compare(target=_VALUE, key=key, value=value)


def get(key: bytes, range_end: bytes = b"", *, limit: int = 0, keys_only: bool = False) -> pb.RequestOp:
    """Read within a transaction."""
    request = pb.RangeRequest(key=key, range_end=range_end, limit=limit, keys_only=keys_only)
    return pb.RequestOp(request_range=request)


def put(key: bytes, value: bytes, lease: int = 0) -> pb.RequestOp:
    """Write within a transaction."""
    return pb.RequestOp(request_put=pb.PutRequest(key=key, value=value, lease=lease))


def delete(key: bytes, range_end: bytes = b"") -> pb.RequestOp:
    """Delete within a transaction."""
    return pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=key, range_end=range_end))


def txn(
    compare: Sequence[pb.Compare], success: Sequence[pb.RequestOp], failure: Sequence[pb.RequestOp] = ()
) -> pb.TxnRequest:
    """Return a transaction."""
    return pb.TxnRequest(compare=compare, success=success, failure=failure)
