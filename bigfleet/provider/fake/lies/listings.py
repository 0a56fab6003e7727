"""Lies about listings and their revisions.

Rules: `providers#lies`.
"""

from collections import deque
from typing import Final

from bigfleet.provider.fake.lies.lie import InterceptedCall, Lie
from bigfleet.v1alpha1 import provider_pb2 as pb

_KEPT_LISTINGS: Final = 16
_BUMPS: Final = 1_000_000


class DropListLie(Lie):
    """Listings omit a share of the machines, others each time."""

    name, usual, on_lists = "drop-list", 0.1, True

    def listing(self, _asked: InterceptedCall, listing: pb.MachineList, /) -> None:
        _keep(listing, [machine for machine in listing.machines if not self.hits()])


class DupListLie(Lie):
    """Listings show a share of the machines twice."""

    name, usual, on_lists = "dup-list", 0.1, True

    def listing(self, _asked: InterceptedCall, listing: pb.MachineList, /) -> None:
        listing.machines.extend([machine for machine in listing.machines if self.hits()])


class EmptyListLie(Lie):
    """Listings are empty."""

    name, on_lists = "empty-list", True

    def listing(self, _asked: InterceptedCall, listing: pb.MachineList, /) -> None:
        if self.hits():
            del listing.machines[:]


class StaleListLie(Lie):
    """Listings are so many seconds old, or as old as the lie."""

    name, usual, limit, on_lists = "stale-list", 30.0, 86_400.0, True

    def start(self) -> None:
        self._seen: deque[tuple[float, bytes]] = deque(maxlen=_KEPT_LISTINGS)
        self._look()

    def listing(self, intercepted: InterceptedCall, listing: pb.MachineList, /) -> None:
        self._look()
        due_s = self._provider.now_s() - self.share
        while len(self._seen) > 1 and self._seen[1][0] <= due_s:
            self._seen.popleft()
        old = pb.MachineList.FromString(self._seen[0][1])
        wanted = set(intercepted.request.states)
        _keep(listing, [machine for machine in old.machines if not wanted or machine.state in wanted])
        listing.revision = old.revision

    def _look(self) -> None:
        self._seen.append((self._provider.now_s(), self._provider.everything()))


class DeltaMissesLie(Lie):
    """Deltas omit a share of the changed machines."""

    name, usual, on_lists = "delta-misses", 0.5, True

    def listing(self, intercepted: InterceptedCall, listing: pb.MachineList, /) -> None:
        if intercepted.request.since_revision:
            _keep(listing, [machine for machine in listing.machines if not self.hits()])


class RevisionBackwardsLie(Lie):
    """Each listing has a lower revision than the one before."""

    name = "revision-backwards"

    def start(self) -> None:
        self._last = self._provider.head()

    def revision(self, _revision: bytes, /) -> bytes:
        self._last = max(self._last - 1, 0)
        return b"%d" % self._last


class IdleBumpLie(Lie):
    """The revision moves although nothing has changed, and unchanged machines appear in deltas."""

    name, on_lists = "idle-bump", True

    def start(self) -> None:
        self._bumps = 0

    def before(self, intercepted: InterceptedCall, /) -> None:
        # The honest provider must be able to read the cursor that callers got.
        if intercepted.rpc == "List" and intercepted.request.since_revision.isdigit():
            bare = pb.ListFilter()
            bare.CopyFrom(intercepted.request)
            bare.since_revision = b"%d" % (int(bare.since_revision) // _BUMPS)
            intercepted.request = bare

    def listing(self, intercepted: InterceptedCall, listing: pb.MachineList, /) -> None:
        if intercepted.request.since_revision and not listing.machines:
            everything = pb.MachineList.FromString(self._provider.everything())
            listing.machines.extend(everything.machines[:1])

    def revision(self, revision: bytes, /) -> bytes:
        self._bumps += 1
        return b"%d" % (int(revision) * _BUMPS + self._bumps % _BUMPS) if revision.isdigit() else revision


def _keep(listing: pb.MachineList, machines: list[pb.Machine]) -> None:
    kept = [_copy(machine) for machine in machines]
    del listing.machines[:]
    listing.machines.extend(kept)


def _copy(machine: pb.Machine) -> pb.Machine:
    copied = pb.Machine()
    copied.CopyFrom(machine)
    return copied


LISTING_LIES: Final[tuple[type[Lie], ...]] = (
    DropListLie,
    DupListLie,
    EmptyListLie,
    StaleListLie,
    DeltaMissesLie,
    RevisionBackwardsLie,
    IdleBumpLie,
)
