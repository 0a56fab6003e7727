"""What is free on each node, kept pod by pod, and which pods run where.

Why: adding up 10,000 pods for each look at the cluster takes longer than a look may. Here a change of a pod costs the same
whatever the number of pods, and a question about one pod is answered from the nodes with enough free CPU.
Must never: be taken for the verdict of the scheduler, which knows more than labels, taints and requests.
Rules: `operator#fragments-rooms`; ADR-0269.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from bigfleet.model.frozen_map import NO_TEXTS
from bigfleet.model.matching import holds
from bigfleet.model.profile import Profile
from bigfleet.model.resources import ZERO, Resources

CPU: Final = "cpu"
_MOST_MATCHES: Final = 1_000
"""Kinds of requirements of which is kept which nodes meet them."""

P = TypeVar("P")
N = TypeVar("N")


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Row:
    """A row of demand as this loop tells rows apart: without limit, and without what is for fragments."""

    profile: Profile
    group: str = ""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Workload:
    """What pods of one row, one owner and one shape have in common; equal ones must be one object."""

    row: Row | None
    """None if no request says what such a pod asks of the shard."""
    owner: str
    requests: Resources
    """With one of the resource `pods`, where nodes say how many they take."""
    shape: object = None
    """What `suits` judges by."""
    apart: str = ""
    """Two pods with the same text do not share a node; empty for pods that share with all."""
    is_daemon: bool = False
    """Whether its pods belong to their nodes, so that they neither need a place nor keep a node from being empty."""
    is_movable: bool = True
    """Whether requests, labels, taints and `apart` are all that decides where such a pod may run, and it is made anew when evicted."""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node as far as pods and the shard are concerned."""

    name: str
    machine_id: str = ""
    """Empty for a node that no machine of the shard stands behind."""
    labels: Mapping[str, str] = NO_TEXTS
    """Of the node and of its machine; rows are matched by them."""
    allocatable: Resources = ZERO
    counted: Resources = ZERO
    """What the shard counts the machine as."""
    in_service: bool = True
    """Whether it is ready and takes pods."""
    shape: object = None
    """What `suits` judges by."""


@dataclass(slots=True)
class _Room:
    facts: NodeFacts | None = None
    since_s: float = 0.0  # in service
    pods: Counter[Workload] = field(default_factory=Counter)
    used: dict[str, int] = field(default_factory=dict)
    guests: int = 0  # pods that do not belong to the node
    apart: Counter[str] = field(default_factory=Counter)


class Rooms:
    """The nodes of a cluster and the pods on them."""

    def __init__(self, suits: Callable[[Workload, NodeFacts], bool] = lambda _pod, _node: True) -> None:
        self._suits = suits
        self._rooms: dict[str, _Room] = {}
        self._places: dict[str, tuple[Workload, str]] = {}
        self._runs_on: dict[Row, Counter[str]] = {}
        self._owners: Counter[tuple[Row | None, str]] = Counter()
        self._by_cpu: list[tuple[int, str]] | None = None
        self._matching: dict[tuple[str, str], frozenset[str]] = {}
        self.version = 0
        """Grows with each change."""

    # ---- changes

    def put_node(self, facts: NodeFacts, now_s: float) -> None:
        """Take a node as it is now."""
        room = self._rooms.setdefault(facts.name, _Room())
        before = room.facts
        if before == facts:
            return
        if facts.in_service and (before is None or not before.in_service):
            room.since_s = now_s
        if before is None or (before.labels, before.machine_id) != (facts.labels, facts.machine_id):
            self._matching.clear()
        room.facts = facts
        self._touch()

    def drop_node(self, name: str) -> None:
        """Forget a node; pods on it are dropped one by one."""
        room = self._rooms.get(name)
        if room is None or room.facts is None:
            return
        room.facts = None
        self._forget_empty(name, room)
        self._matching.clear()
        self._touch()

    def put_pod(self, uid: str, workload: Workload, node: str) -> None:
        """Take a pod that is bound to a node."""
        if self._places.get(uid) == (workload, node):
            return
        self.drop_pod(uid)
        self._places[uid] = (workload, node)
        self._count(workload, node, 1)

    def drop_pod(self, uid: str) -> None:
        """Forget a pod."""
        place = self._places.pop(uid, None)
        if place is not None:
            self._count(*place, -1)

    def _count(self, workload: Workload, node: str, by: int) -> None:
        room = self._rooms.setdefault(node, _Room())
        _add(room.pods, workload, by)
        for name, amount in workload.requests.items():
            room.used[name] = room.used.get(name, 0) + by * amount
        if workload.apart:
            _add(room.apart, workload.apart, by)
        if not workload.is_daemon:
            room.guests += by
        _add(self._owners, (workload.row, workload.owner), by)
        if workload.row is not None:
            nodes = self._runs_on.setdefault(workload.row, Counter())
            _add(nodes, node, by)
            if not nodes:
                del self._runs_on[workload.row]
        self._forget_empty(node, room)
        self._touch()

    def _forget_empty(self, name: str, room: _Room) -> None:
        if room.facts is None and not room.pods:
            del self._rooms[name]

    def _touch(self) -> None:
        self._by_cpu = None
        self.version += 1

    # ---- questions

    def is_placed(self, uid: str) -> bool:
        """Return whether a pod has a node."""
        return uid in self._places

    def runs(self, workload: Workload) -> bool:
        """Return whether a pod of this row and owner has a node."""
        return (workload.row, workload.owner) in self._owners

    def nodes(self) -> Iterator[NodeFacts]:
        """Return all nodes."""
        return (room.facts for room in self._rooms.values() if room.facts is not None)

    def facts(self, name: str) -> NodeFacts | None:
        """Return a node."""
        room = self._rooms.get(name)
        return None if room is None else room.facts

    def since_s(self, name: str) -> float:
        """Return since when a node is in service."""
        return self._rooms[name].since_s

    def free(self, name: str, resource: str) -> int:
        """Return what pods leave of one resource of a node; below zero if they request more than there is."""
        room = self._rooms[name]
        return (room.facts.allocatable.amount(resource) if room.facts else 0) - room.used.get(resource, 0)

    def pods_on(self, name: str) -> Mapping[Workload, int]:
        """Return how many pods of which workloads run on a node."""
        return self._rooms[name].pods

    def guests(self, name: str) -> int:
        """Return how many pods of a node do not belong to it."""
        return self._rooms[name].guests

    def load(self, name: str) -> Resources:
        """Return what the pods request that do not belong to the node."""
        total: dict[str, int] = {}
        for workload, count in self._rooms[name].pods.items():
            if not workload.is_daemon:
                for resource, amount in workload.requests.items():
                    total[resource] = total.get(resource, 0) + amount * count
        return Resources(total)

    def left_by_daemons(self, name: str) -> Resources:
        """Return what an empty node would offer: the allocatable amounts without what belongs to the node."""
        room = self._rooms[name]
        offered = room.facts.allocatable if room.facts else ZERO
        for workload, count in room.pods.items():
            if workload.is_daemon:
                offered -= workload.requests.scaled(count)
        return offered

    def has_free(self, workload: Workload, name: str) -> bool:
        """Return whether a node has enough free for one more such pod, whatever else it asks."""
        room = self._rooms[name]
        if room.facts is None:
            return False
        allocatable, used = room.facts.allocatable, room.used
        return all(
            allocatable.amount(resource) - used.get(resource, 0) >= amount
            for resource, amount in workload.requests.items()
        )

    def places_for(self, workload: Workload) -> Iterator[str]:
        """Return the nodes in service on which one more such pod fits, those with much free CPU last."""
        ordered = self._ordered()
        start = bisect_left(ordered, (workload.requests.amount(CPU), ""))
        for _, name in ordered[start:]:
            room = self._rooms[name]
            if workload.apart and workload.apart in room.apart:
                continue
            if self.has_free(workload, name) and room.facts and self._suits(workload, room.facts):
                yield name

    def matching(self, row: Row, domain: str | None = None) -> frozenset[str]:
        """Return the nodes whose labels meet a row's requirements, those of one domain of a gang only if it is given."""
        key = (row.profile.requirements_text, domain or "")
        found = self._matching.get(key)
        if found is None:
            if len(self._matching) >= _MOST_MATCHES:
                self._matching.clear()
            found = self._matching[key] = frozenset(
                facts.name
                for facts in self.nodes()
                if meets(row, facts.labels) and _in_domain(row, facts.labels, domain)
            )
        return found

    def domain_of(self, row: Row) -> str | None:
        """Return the topology domain in which most pods of a gang run; None if none runs, or for an ordinary row."""
        if row.profile.same_key is None:
            return None
        domains: Counter[str] = Counter()
        for name, count in self._runs_on.get(row, {}).items():
            facts = self.facts(name)
            value = None if facts is None else facts.labels.get(row.profile.same_key)
            if value is not None:
                domains[value] += count
        return min(domains, key=lambda value: (-domains[value], value), default=None)

    def _ordered(self) -> list[tuple[int, str]]:
        if self._by_cpu is None:
            self._by_cpu = sorted(
                (self.free(name, CPU), name)
                for name, room in self._rooms.items()
                if room.facts is not None and room.facts.in_service
            )
        return self._by_cpu


def meets(row: Row, labels: Mapping[str, str]) -> bool:
    """Return whether labels meet the requirements of a row."""
    return all(holds(item, labels.get(item.key)) for item in row.profile.requirements)


def _in_domain(row: Row, labels: Mapping[str, str], domain: str | None) -> bool:
    return domain is None or labels.get(row.profile.same_key or "") == domain


def _add(counts: Counter[P], what: P, by: int) -> None:
    counts[what] += by
    if not counts[what]:
        del counts[what]
