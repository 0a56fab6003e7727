"""The members of the cluster: a fixed table by ordinal, from flags that are the same on every replica.

Why: the library identifies a voter by its address text, and its dynamic membership is unsafe.
Must never: resolve a name.
Rules: `coordinator#fixed-membership`, `coordinator#flags`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from bigfleet.model.errors import InvalidFieldError
from bigfleet.transport.address import join, parse_listen

_ORDINAL = re.compile(r"(?P<stem>.+)-(?P<ordinal>0|[1-9][0-9]*)", re.ASCII)
ALLOWED_REPLICAS = (1, 3)


@dataclass(frozen=True, slots=True)
class MemberAddress:
    """One member and its addresses."""

    node_id: str
    raft_address: str
    grpc_address: str


@dataclass(frozen=True, slots=True)
class RaftMembers:
    """All members by ordinal, and which of them this process is."""

    all: tuple[MemberAddress, ...]
    me: MemberAddress

    @property
    def ordinal(self) -> int:
        return self.all.index(self.me)

    @property
    def others(self) -> tuple[MemberAddress, ...]:
        return tuple(member for member in self.all if member != self.me)

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(member.node_id for member in self.all)

    def by_raft_address(self, address: str | None) -> MemberAddress | None:
        """Return the member with this Raft address."""
        return next((member for member in self.all if member.raft_address == address), None)


def members_from_flags(
    *,
    node_id: str,
    replicas: int,
    join_addr: str,
    peers: str,
    raft_advertise: str,
    raft_bind: str,
    listen: str,
) -> RaftMembers:
    """Return the members that the flags describe; raises InvalidFieldError naming the flag."""
    if replicas not in ALLOWED_REPLICAS:
        raise InvalidFieldError("--replicas", replicas, "1 or 3")
    if peers and join_addr:
        raise InvalidFieldError("--peers", peers, "nothing beside --join-addr; one of the two")
    if peers:
        return _from_list(node_id, replicas, peers)
    if join_addr:
        return _from_ordinals(node_id, replicas, join_addr, raft_advertise, raft_bind)
    if replicas != 1:
        raise InvalidFieldError("--replicas", replicas, "1 without --join-addr or --peers")
    me = MemberAddress(
        node_id, raft_advertise or _reachable(raft_bind, "--raft-bind"), _reachable(listen, "--listen")
    )
    return RaftMembers((me,), me)


def _from_ordinals(
    node_id: str, replicas: int, join_addr: str, raft_advertise: str, raft_bind: str
) -> RaftMembers:
    match = _ORDINAL.fullmatch(node_id)
    if match is None or int(match["ordinal"]) >= replicas:
        allowed = f"an id that ends in -0 to -{replicas - 1}, as --join-addr is set"
        raise InvalidFieldError("--id", node_id, allowed)
    service = parse_listen(join_addr, "--join-addr")
    advertise = raft_advertise or f"{node_id}.{service.host}:{parse_listen(raft_bind, '--raft-bind').port}"
    if not advertise.startswith(f"{node_id}."):
        raise InvalidFieldError("--raft-advertise", raft_advertise, f"an address that begins with {node_id}.")
    place = parse_listen(advertise, "--raft-advertise")
    domain = place.host.removeprefix(node_id)
    every = tuple(
        MemberAddress(name, join(name + domain, place.port), join(name + domain, service.port))
        for name in (f"{match['stem']}-{ordinal}" for ordinal in range(replicas))
    )
    return RaftMembers(every, every[int(match["ordinal"])])


def _from_list(node_id: str, replicas: int, peers: str) -> RaftMembers:
    every = tuple(_member(text) for text in peers.split(","))
    form = "id@raft-address@grpc-address for every member, comma-separated"
    if len(every) != replicas:
        raise InvalidFieldError("--peers", peers, f"{form}; --replicas is {replicas}, found {len(every)}")
    if _repeated([member.node_id for member in every]) or _repeated([m.raft_address for m in every]):
        raise InvalidFieldError("--peers", peers, "every id and every Raft address once")
    me = next((member for member in every if member.node_id == node_id), None)
    if me is None:
        raise InvalidFieldError(
            "--id", node_id, f"one of {', '.join(m.node_id for m in every)}, as --peers says"
        )
    return RaftMembers(every, me)


def _member(text: str) -> MemberAddress:
    parts = text.strip().split("@")
    if len(parts) != 3 or not all(parts):
        raise InvalidFieldError("--peers", text, "id@raft-address@grpc-address")
    node_id, raft_address, grpc_address = parts
    parse_listen(raft_address, "--peers")
    parse_listen(grpc_address, "--peers")
    return MemberAddress(node_id, raft_address, grpc_address)


def _repeated(names: Sequence[str]) -> bool:
    return len(set(names)) < len(names)


def _reachable(listen: str, flag: str) -> str:
    place = parse_listen(listen, flag)
    return join(place.host or "127.0.0.1", place.port)
