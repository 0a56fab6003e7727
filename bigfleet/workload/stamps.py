"""Stamps: for which need of its cluster each Configured machine of a seeded world was obtained.

Why: a machine without a stamp is credited by luck; a served gang stays where it is only because its machines carry its
group. A world that starts full must therefore start stamped, as if the shard had obtained every machine itself.
Must never: stamp a machine for a need that its cluster does not have. A machine without a need carries the worth of its
archetype only: priority and penalties.
Rules: `testing#workload-objects`, `testing#seeded-machines`, `engine#folding`.
"""

from collections.abc import Iterable
from fractions import Fraction

from bigfleet.model.machine import Assignment
from bigfleet.model.profile import ZONE_KEY
from bigfleet.workload.archetype import Archetype
from bigfleet.workload.objects import ProfileBook, WorkloadObject
from bigfleet.workload.profiles import ScaleProfile
from bigfleet.workload.sizing import split


class Stamper:
    """Makes the stamps of a profile's clusters; equal ones are shared between clusters."""

    def __init__(self, profile: ScaleProfile) -> None:
        self._profiles = ProfileBook(profile.catalogue)
        self._zones = len(profile.catalogue.zones)
        self._density = profile.density
        self._made: dict[tuple[str, str, str], Assignment] = {}

    def stamps(
        self, archetype: Archetype, machines: int, objects: Iterable[WorkloadObject]
    ) -> list[Assignment]:
        """The stamps of an archetype's machines in one cluster, given its objects there; one per machine, in order."""
        pods: dict[str, int] = {}
        gangs: list[tuple[int, Assignment]] = []
        limit = archetype.pods_per_machine(self._density)
        for item in objects:
            if archetype.gang is not None and item.replicas > limit:
                fingerprint = self._profiles.of(item).fingerprint
                gangs.append((item.replicas, self._stamp(archetype, fingerprint, item.group)))
            else:
                fingerprint = self._profiles.folded(item).fingerprint
                pods[fingerprint] = pods.get(fingerprint, 0) + item.replicas
        if gangs:
            # Beside gangs that have to be seated, one that was cut to a single machine is left to the engine.
            return self._seated(archetype, machines, gangs)
        if not pods:
            return [self._stamp(archetype)] * machines
        total = sum(pods.values())
        counts = split(machines, [Fraction(count, total) for count in pods.values()])
        return [
            stamp
            for fingerprint, count in zip(pods, counts, strict=True)
            for stamp in [self._stamp(archetype, fingerprint)] * count
        ]

    def _seated(
        self, archetype: Archetype, machines: int, gangs: list[tuple[int, Assignment]]
    ) -> list[Assignment]:
        """Seat each gang, largest first, whole in the first domain with room; one that finds none stays unserved."""
        stamps = [self._stamp(archetype)] * machines
        free: dict[int, list[int]] = {}
        for place in range(machines):
            free.setdefault(self._domain(archetype, place), []).append(place)
        for size, stamp in sorted(gangs, key=lambda gang: -gang[0]):
            seats = next((places for places in free.values() if len(places) >= size), [])
            for place in seats[:size]:
                stamps[place] = stamp
            del seats[:size]
        return stamps

    def _domain(self, archetype: Archetype, place: int) -> int:
        in_zone = archetype.gang is not None and archetype.gang.topology_key == ZONE_KEY
        return place % self._zones if in_zone else place // archetype.block

    def _stamp(self, archetype: Archetype, fingerprint: str = "", group: str = "") -> Assignment:
        key = (archetype.name, fingerprint, group)
        known = self._made.get(key)
        if known is None:
            known = self._made[key] = Assignment(
                archetype.priority,
                float(archetype.interruption_penalty),
                float(archetype.reclamation_penalty),
                fingerprint,
                group,
            )
        return known
