"""How many machines a demand takes, and how a number of machines is split over archetypes.

Why: pools split by the weight of workload objects starve whatever takes a whole machine per pod; machines follow pods
divided by pods per machine, and every gang finds room in every zone (ADR-0044).
Must never: compute in floats; the published counts hold exactly.
Rules: `testing#machine-allocation`, `testing#effective-machines`, `testing#sizing-oracle`.
"""

from collections.abc import Sequence
from fractions import Fraction

from bigfleet.workload.archetype import Archetype, Catalogue


def pod_shares(catalogue: Catalogue) -> tuple[Fraction, ...]:
    """The part of all pods that each steady archetype has; they add up to one."""
    return _normalised([archetype.weight * archetype.mean_replicas for archetype in catalogue.steady])


def machine_shares(catalogue: Catalogue, density: int) -> tuple[Fraction, ...]:
    """The part of all machines that each steady archetype takes; they add up to one."""
    return _normalised(
        [
            share / archetype.pods_per_machine(density)
            for archetype, share in zip(catalogue.steady, pod_shares(catalogue), strict=True)
        ]
    )


def gang_floor(archetype: Archetype, catalogue: Catalogue) -> int:
    """The machines below which some zone could not hold the largest gang; zero for all else."""
    return archetype.gang.most * len(catalogue.zones) if archetype.gang is not None else 0


def effective_machines(catalogue: Catalogue, pods: int, density: int) -> int:
    """The machines that this many pods take, each archetype rounded up, with the floors added on top."""
    wanted = 0
    for archetype, share in zip(catalogue.steady, pod_shares(catalogue), strict=True):
        exact = pods * share / archetype.pods_per_machine(density)
        wanted += -(-exact.numerator // exact.denominator) + gang_floor(archetype, catalogue)
    return wanted


def allocate(catalogue: Catalogue, machines: int, density: int) -> tuple[int, ...]:
    """The machines of each steady archetype: largest remainders, then floors, so the sum may be larger than asked."""
    if not machines:
        return (0,) * len(catalogue.steady)
    counts = split(machines, machine_shares(catalogue, density))
    return tuple(
        max(count, gang_floor(archetype, catalogue))
        for archetype, count in zip(catalogue.steady, counts, strict=True)
    )


def split(total: int, shares: Sequence[Fraction]) -> list[int]:
    """Whole parts of a total by largest remainder; of equal remainders the earlier wins. Shares add up to one."""
    exact = [total * share for share in shares]
    counts = [part.numerator // part.denominator for part in exact]
    order = sorted(range(len(exact)), key=lambda place: (counts[place] - exact[place], place))
    for place in order[: total - sum(counts)]:
        counts[place] += 1
    return counts


def _normalised(parts: Sequence[Fraction]) -> tuple[Fraction, ...]:
    total = sum(parts, Fraction(0))
    return tuple(part / total for part in parts)
