"""Puts stuck pods into empty machines by first fit, to tell how many machines they need.

Why: a sum does not tell how many machines hold it; the cluster's side knows the pods, so it counts here.
Must never: put a pod where its row, its size or another pod of its kind keeps it out.
Rules: `operator#fragments-size`; ADR-0269.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bigfleet.model.resources import Resources
from bigfleet.operator.core.rooms import Row, Workload, meets


@dataclass(slots=True)
class Bin:
    """One machine that is empty as yet: what is left of it, and which pods it keeps out."""

    left: dict[str, int]
    labels: Mapping[str, str] | None = None
    """None for a machine that is yet to be asked for, which is made to meet its row."""
    apart: set[str] = field(default_factory=set)
    met: dict[str, bool] = field(default_factory=dict)

    def takes(self, row: Row) -> bool:
        """Return whether it meets the requirements of a row."""
        if self.labels is None:
            return True
        key = row.profile.requirements_text
        found = self.met.get(key)
        if found is None:
            found = self.met[key] = meets(row, self.labels)
        return found

    def put(self, workload: Workload, count: int) -> int:
        """Put as many of so many pods into it as fit, and return how many those are."""
        if workload.apart:
            if workload.apart in self.apart:
                return 0
            count = min(count, 1)
        for name, amount in workload.requests.items():
            count = min(count, self.left.get(name, 0) // amount)
            if count < 1:
                return 0
        for name, amount in workload.requests.items():
            self.left[name] -= amount * count
        if workload.apart:
            self.apart.add(workload.apart)
        return count


def bin_of(size: Resources, labels: Mapping[str, str] | None = None) -> Bin:
    """Return an empty machine of a size."""
    return Bin(dict(size.items()), labels)


def fill(bins: list[Bin], workload: Workload, count: int) -> int:
    """Put so many pods into the bins by first fit; return how many found no place."""
    if workload.row is not None:
        for one in bins:
            if not count:
                break
            if one.takes(workload.row):
                count -= one.put(workload, count)
    return count


def open_bins(bins: list[Bin], size: Resources, workload: Workload, count: int, most: int) -> int:
    """Add bins of a size, at most so many, until so many pods have a place; return how many have none.

    A pod that is larger than the size gets a bin of its own.
    """
    opened = 0
    while count and opened < most:
        new = bin_of(size)
        took = new.put(workload, count)
        if not took:
            new.left = {}
            took = 1
        bins.append(new)
        count, opened = count - took, opened + 1
    return count
