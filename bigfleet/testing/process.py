"""All virtual seams of one process, connected to each other.

Why: a test that needs a clock usually needs ids and a disk on the same host as well.
Must never: share anything between two processes except the loop, the disk image and the seed of the caller.
Rules: `testing#constructor-seams`, `testing#simulated-process`, `testing#named-streams`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from bigfleet.aio.net import Net
from bigfleet.aio.rng import Rng, SeededRng
from bigfleet.aio.seams import Seams
from bigfleet.testing.clock import VirtualClock
from bigfleet.testing.disk.image import DiskImage
from bigfleet.testing.disk.virtual_disk import MemoryDisk
from bigfleet.testing.host import VirtualHost
from bigfleet.testing.ids import SeededIds
from bigfleet.testing.loop import VirtualTimeLoop, virtual_loop
from bigfleet.testing.proc import VirtualProc


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualProcess:
    """The virtual seams, so that a test can also control them."""

    clock: VirtualClock
    rng: Rng
    ids: SeededIds
    disk: MemoryDisk
    proc: VirtualProc
    host: VirtualHost

    def seams(self, net: Net) -> Seams:
        """Return the seams that production code takes, with the given network."""
        return Seams(
            clock=self.clock,
            rng=self.rng,
            ids=self.ids,
            net=net,
            disk=self.disk,
            proc=self.proc,
            host=self.host,
        )


def virtual_process(
    name: str = "process",
    *,
    seed: int = 0,
    loop: VirtualTimeLoop | None = None,
    image: DiskImage | None = None,
    offset_s: float = 0.0,
    drift_ppm: int = 0,
    costs_s: Mapping[str, float] | None = None,
) -> VirtualProcess:
    """Return the seams of a process that starts now; its name selects its random stream."""
    running = loop or virtual_loop()
    rng = SeededRng(seed).child(name)
    host = VirtualHost(running, costs_s=costs_s)
    return VirtualProcess(
        clock=VirtualClock(running, offset_s=offset_s, drift_ppm=drift_ppm, host=host),
        rng=rng,
        ids=SeededIds(rng),
        disk=MemoryDisk(image),
        proc=VirtualProc(),
        host=host,
    )
