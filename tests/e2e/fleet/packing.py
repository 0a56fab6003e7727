"""The fewest machines, and the least money, that some groups of pods can do with: exact where every pod is alike, else a bound.

Why: what the fleet bought is judged by the best that anybody could have bought, found without any of our own code.
Must never: be larger than what is possible, or a fleet would look better than it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

KUBELET_PODS = 110


@dataclass(frozen=True, slots=True)
class Size:
    """What a machine has, or a pod asks for: cores and GiB; of a machine also its price an hour."""

    cpu: Fraction
    memory: Fraction
    price: float = 0.0


def size(cpu: str, memory: str, price: float = 0.0) -> Size:
    """Return a size from decimal texts."""
    return Size(Fraction(cpu), Fraction(memory), price)


@dataclass(frozen=True, slots=True)
class Pods:
    """So many pods of one size, of which one machine takes at most so many."""

    count: int
    each: Size
    per_machine: int = KUBELET_PODS


@dataclass(frozen=True, slots=True)
class Best:
    """The best packing, and how it was found."""

    machines: int
    price: float
    how: str


def per_machine(pods: Pods, machine: Size, daemon: Size | None = None) -> int:
    """Return how many of these pods one machine takes, beside the daemon's pod if there is one."""
    cpu, memory, places = machine.cpu, machine.memory, KUBELET_PODS
    if daemon is not None:
        cpu, memory, places = cpu - daemon.cpu, memory - daemon.memory, places - 1
    return max(0, min(cpu // pods.each.cpu, memory // pods.each.memory, places, pods.per_machine))


def best_alike(pods: Pods, machine: Size, daemon: Size | None = None) -> Best:
    """Return the best packing of pods of one size on machines of one size, which is exact."""
    fitting = per_machine(pods, machine, daemon)
    if not fitting:
        raise ValueError(f"no pod of {pods.each} fits on {machine}")
    machines = ceil(pods.count / fitting)
    return Best(machines, machines * machine.price, f"exact: {fitting} pods on a machine")


def best_mixed(groups: Sequence[Pods], machines: Sequence[Size]) -> Best:
    """Return a lower bound for pods of several sizes: what the sum costs at the best price of each resource.

    Machines: the sum over the largest of each resource.
    """
    cores = sum((group.count * group.each.cpu for group in groups), Fraction(0))
    memory = sum((group.count * group.each.memory for group in groups), Fraction(0))
    pods = sum(group.count for group in groups)
    price = max(
        float(cores) * min(one.price / float(one.cpu) for one in machines),
        float(memory) * min(one.price / float(one.memory) for one in machines),
        pods * min(one.price for one in machines) / KUBELET_PODS,
    )
    fewest = max(
        ceil(cores / max(one.cpu for one in machines)),
        ceil(memory / max(one.memory for one in machines)),
        ceil(pods / KUBELET_PODS),
    )
    return Best(fewest, price, "lower bound: the sum at the best price of each resource")
