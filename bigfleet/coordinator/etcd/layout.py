"""The keys below a prefix of etcd, and what their values say.

Why: every version of the coordinator reads what another one wrote, and a person with etcdctl should understand it.
Must never: change the form of a value without a new format number.
Rules: `coordinator#etcd-layout`.

    <prefix>/cluster                the cluster: ids, base of its epochs, the etcd cluster that it was formed in
    <prefix>/leader                 who leads, with the lease of its process; the revision that created it makes the epoch
    <prefix>/head                   index and epoch of the last entry, as two numbers
    <prefix>/log/<index>            one batch
    <prefix>/snapshot               which snapshot counts
    <prefix>/snapshots/<index>/<n>  its chunks
    <prefix>/replicas/<id>          one per running replica, with its lease
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, Self

from bigfleet.coordinator.etcd.calls import behind
from bigfleet.coordinator.etcd.client import WrongStoreError

FORMAT: Final = 1
_DIGITS: Final = 20


@dataclass(frozen=True, slots=True)
class Head:
    """The last entry of the log."""

    index: int
    epoch: int

    def text(self) -> bytes:
        """Return the value of its key."""
        return f"{self.index} {self.epoch}".encode()


NO_ENTRY: Final = Head(0, 0)


@dataclass(frozen=True, slots=True)
class _Record:
    """A value in JSON."""

    def text(self) -> bytes:
        """Return the value of its key."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def of(cls, key: bytes, value: bytes) -> Self:
        """Read a value; raises `WrongStoreError`."""
        document = _object(key, value)
        found: dict[str, Any] = {}
        for field in fields(cls):
            value_found = document.get(field.name)
            if type(value_found) is not field.type:
                wanted = "a text" if field.type is str else "a whole number"
                raise WrongStoreError(
                    f"{key.decode()}: {field.name}: found {value_found!r:.80}, allowed is {wanted}"
                )
            found[field.name] = document[field.name]
        return cls(**found)


@dataclass(frozen=True, slots=True)
class StoredCluster(_Record):
    """The cluster that a prefix holds."""

    format: int
    cluster_id: str
    incarnation: int
    epoch_base: int
    """Added to the revision that elected a leader; above every epoch of the store that the log came from."""
    etcd: str
    """The id of the etcd cluster, in hex. A backup that was restored has another one."""


@dataclass(frozen=True, slots=True)
class StoredReplica(_Record):
    """A running replica, or the leader."""

    id: str
    address: str


@dataclass(frozen=True, slots=True)
class StoredSnapshot(_Record):
    """The snapshot that counts."""

    index: int
    epoch: int
    chunks: int
    bytes: int
    sha256: str


class Keys:
    """The keys below one prefix."""

    def __init__(self, prefix: str) -> None:
        root = prefix.strip("/").encode()
        self.prefix = b"/" + root + b"/" if root else b"/"
        self.cluster, self.leader = self.prefix + b"cluster", self.prefix + b"leader"
        self.head, self.snapshot = self.prefix + b"head", self.prefix + b"snapshot"
        self.log, self.log_end = self._folder(b"log/")
        self.snapshots, self.snapshots_end = self._folder(b"snapshots/")
        self.replicas, self.replicas_end = self._folder(b"replicas/")

    def entry(self, index: int) -> bytes:
        """Return the key of one batch."""
        return self.log + _number(index)

    def index_of(self, key: bytes) -> int:
        """Return the index of a batch's key."""
        try:
            return int(key.removeprefix(self.log))
        except ValueError:
            raise WrongStoreError(f"{key!r}: found no index, allowed are {_DIGITS} digits") from None

    def chunks(self, index: int) -> bytes:
        """Return what the keys of a snapshot's chunks begin with."""
        return self.snapshots + _number(index) + b"/"

    def chunk(self, index: int, number: int) -> bytes:
        """Return the key of one chunk."""
        return self.chunks(index) + b"%06d" % number

    def replica(self, node_id: str) -> bytes:
        """Return the key of one replica."""
        return self.replicas + node_id.encode()

    def _folder(self, name: bytes) -> tuple[bytes, bytes]:
        return self.prefix + name, behind(self.prefix + name)


def head_of(key: bytes, value: bytes) -> Head:
    """Read the head; raises `WrongStoreError`."""
    try:
        index, epoch = value.split()
        return Head(int(index), int(epoch))
    except ValueError:
        raise WrongStoreError(f"{key.decode()}: found {value!r:.80}, allowed are two numbers") from None


def cluster_of(key: bytes, value: bytes) -> StoredCluster:
    """Read the cluster's record, of a known format; raises `WrongStoreError`."""
    found = _object(key, value).get("format")
    if found != FORMAT:
        raise WrongStoreError(f"{key.decode()}: format: found {found!r:.80}, allowed is {FORMAT}")
    return StoredCluster.of(key, value)


def _object(key: bytes, value: bytes) -> Mapping[str, Any]:
    try:
        document = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise WrongStoreError(f"{key.decode()}: {type(error).__name__}, allowed is a JSON object") from error
    if not isinstance(document, dict):
        raise WrongStoreError(f"{key.decode()}: found {document!r:.80}, allowed is a JSON object")
    return document


def _number(number: int) -> bytes:
    return b"%0*d" % (_DIGITS, number)
