"""Places pods on nodes by first fit under all constraints of the benchmark's pods, as the Kubernetes scheduler judges them.

Why: that machines hold the sum says nothing about whether each pod finds a node. Spread counts every pod that its selector matches,
on every node; affinity lets a pod without a match anywhere start a domain only if it selects itself.
A gang that wants to share a host starts on a node that holds all of it: the scheduler looks at one pod at a time and may start it on
a smaller one, and then no further node helps, whoever buys it, because the pods want that one.
Must never: place a pod where the scheduler would not. It takes the first node that fits, so that it does no better than one that
does not plan.
Rules of the scheduler: filters NodeResourcesFit, PodTopologySpread and InterPodAffinity; nodes without a zone do not occur here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bigfleet.model.machine import PODS, Machine
from bigfleet.model.profile import HOST_NAME_KEY, ZONE_KEY
from bigfleet.model.quantity import NANO, parse_quantity

RESOURCES: Final = ("cpu", "memory", PODS)
THOUSANDTH: Final = NANO // 1000
"""Amounts are counted in thousandths here, which is exact for these pods and fits into 64 bits."""
Counts = NDArray[np.int64]
NOTHING: Final = np.zeros(len(RESOURCES), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Selects:
    """A constraint over one topology key: the label that it selects by."""

    topology_key: str
    label: tuple[str, str]
    max_skew: int = 0
    """0 for affinity."""


@dataclass(frozen=True, slots=True)
class Placed:
    """What of a pod decides where it may run."""

    name: str
    amounts: Counts
    labels: frozenset[tuple[str, str]]
    spreads: tuple[Selects, ...]
    affinities: tuple[Selects, ...]


def placed_pod(pod: Mapping[str, Any]) -> Placed:
    """Read a pod."""
    spec = pod["spec"]
    requests = spec["containers"][0]["resources"]["requests"]
    amounts = [parse_quantity(requests.get(name, "0")) // THOUSANDTH for name in RESOURCES[:2]]
    affinity = spec.get("affinity", {}).get("podAffinity", {})
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", ())
    return Placed(
        name=pod["metadata"]["name"],
        amounts=np.array([*amounts, 1000], dtype=np.int64),
        labels=frozenset(pod["metadata"].get("labels", {}).items()),
        spreads=tuple(
            _selects(term, term["maxSkew"])
            for term in spec.get("topologySpreadConstraints", ())
            if term["whenUnsatisfiable"] == "DoNotSchedule"
        ),
        affinities=tuple(_selects(term) for term in terms),
    )


def _selects(term: Mapping[str, Any], max_skew: int = 0) -> Selects:
    (label,) = term["labelSelector"]["matchLabels"].items()
    return Selects(term["topologyKey"], label, max_skew)


class FirstFit:
    """Nodes, what is free on each, and which pods are on it; nodes may be added, pods placed, in any order."""

    def __init__(self) -> None:
        self.nodes: list[Machine] = []
        self.node_of: dict[str, str] = {}
        """The id of its node, by name of pod."""
        self.pods_on: list[list[Placed]] = []
        self._free = np.zeros((0, len(RESOURCES)), dtype=np.int64)
        self._zone = np.zeros(0, dtype=np.int64)
        self._zones: dict[str, int] = {}
        self._counts: dict[tuple[str, str], Counts] = {}

    def add(self, machines: Iterable[Machine]) -> None:
        """Let machines join as empty nodes."""
        came = list(machines)
        if not came:
            return
        sizes = [
            [machine.shape.with_pods.amount(name) // THOUSANDTH for name in RESOURCES] for machine in came
        ]
        zones = [self._zones.setdefault(machine.shape.zone, len(self._zones)) for machine in came]
        self.nodes += came
        self.pods_on += [[] for _ in came]
        self._free = np.concatenate([self._free, np.array(sizes, dtype=np.int64)])
        self._zone = np.concatenate([self._zone, np.array(zones, dtype=np.int64)])
        grown = np.zeros(len(came), dtype=np.int64)
        self._counts = {label: np.concatenate([counts, grown]) for label, counts in self._counts.items()}

    def place(self, pods: Sequence[Placed]) -> list[Placed]:
        """Place what can be placed, again and again until a round places nothing; return the pods without a node."""
        waiting = self._start_gangs(pods)
        while True:
            left = [pod for pod in waiting if not self._place(pod)]
            if not left or len(left) == len(waiting):
                return left
            waiting = left

    def remove(self, machine_id: str) -> list[Placed]:
        """Let a node leave; return the pods that were on it."""
        node = next(place for place, machine in enumerate(self.nodes) if machine.id == machine_id)
        del self.nodes[node]
        evicted = self.pods_on.pop(node)
        self._free, self._zone = np.delete(self._free, node, axis=0), np.delete(self._zone, node)
        self._counts = {label: np.delete(counts, node) for label, counts in self._counts.items()}
        for pod in evicted:
            del self.node_of[pod.name]
        return evicted

    def _start_gangs(self, pods: Sequence[Placed]) -> list[Placed]:
        """Place each gang that wants to share a host, the largest first, on the fullest node that holds all of it; return the rest."""
        gangs: dict[Selects, list[Placed]] = {}
        for pod in pods:
            for affinity in pod.affinities:
                if affinity.topology_key == HOST_NAME_KEY and not self._of(affinity.label).any():
                    gangs.setdefault(affinity, []).append(pod)
        sizes = {gang: sum((pod.amounts for pod in gangs[gang]), NOTHING) for gang in gangs}
        free, hosts = self._free.copy(), {}
        for gang in sorted(gangs, key=lambda gang: (*-sizes[gang][::-1], gang.label)):
            holds = (free >= sizes[gang]).all(axis=1)
            if holds.any():
                hosts[gang] = node = int(np.where(holds, free[:, 1], np.iinfo(np.int64).max).argmin())
                free[node] -= sizes[gang]
        for gang, node in hosts.items():
            # One that selects itself, before members of other gangs bear the label to other hosts.
            next((pod for pod in gangs[gang] if gang.label in pod.labels and self._place(pod, node)), None)
        for gang, node in hosts.items():
            for pod in gangs[gang]:
                if pod.name not in self.node_of:
                    self._place(pod, node)
        return [pod for pod in pods if pod.name not in self.node_of]

    def _place(self, pod: Placed, only: int | None = None) -> bool:
        fits: NDArray[np.bool_] = np.all(self._free >= pod.amounts, axis=1)
        for spread in pod.spreads:
            fits &= self._within_skew(spread, pod)
        for affinity in pod.affinities:
            fits &= self._near(affinity, pod)
        node = int(fits.argmax()) if only is None else only
        if not len(fits) or not fits[node]:
            return False
        self._free[node] -= pod.amounts
        self.node_of[pod.name] = self.nodes[node].id
        self.pods_on[node].append(pod)
        for label in pod.labels:
            self._of(label)[node] += 1
        return True

    def _of(self, label: tuple[str, str]) -> Counts:
        counts = self._counts.get(label)
        if counts is None:
            counts = self._counts[label] = np.zeros(len(self.nodes), dtype=np.int64)
        return counts

    def _in_domains(self, key: str, label: tuple[str, str]) -> tuple[Counts, Counts]:
        """How many matching pods each domain has, and the same for the domain of each node."""
        counts = self._of(label)
        if key == HOST_NAME_KEY:
            return counts, counts
        if key != ZONE_KEY:
            raise ValueError(f"topology key {key!r}; allowed are {HOST_NAME_KEY} and {ZONE_KEY}")
        domains = np.bincount(self._zone, weights=counts, minlength=len(self._zones)).astype(np.int64)
        return domains, domains[self._zone]

    def _within_skew(self, spread: Selects, pod: Placed) -> NDArray[np.bool_]:
        domains, per_node = self._in_domains(spread.topology_key, spread.label)
        itself = int(spread.label in pod.labels)
        least = int(domains.min()) if len(domains) else 0
        return per_node + itself - least <= spread.max_skew

    def _near(self, affinity: Selects, pod: Placed) -> NDArray[np.bool_]:
        domains, per_node = self._in_domains(affinity.topology_key, affinity.label)
        if not domains.any():
            return np.full(len(per_node), affinity.label in pod.labels)
        return per_node > 0
