"""All seams of one process in one value.

Why: a program passes the same seven objects to everything it builds; a bundle makes that one argument.
Must never: be handed further than a constructor that needs most of it; a function that only sleeps takes a clock.
Rules: `testing#constructor-seams`.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bigfleet.aio.clock import Clock, SystemClock
from bigfleet.aio.disk import Disk
from bigfleet.aio.host import Host, SystemHost
from bigfleet.aio.ids import Ids, SystemIds
from bigfleet.aio.proc import Proc, SystemProc
from bigfleet.aio.rng import Rng, SystemRng
from bigfleet.aio.system_disk import SystemDisk

if TYPE_CHECKING:  # programs without a network, such as the certificate commands, need not load it
    from bigfleet.aio.net import Net


@dataclass(frozen=True, slots=True, kw_only=True)
class Seams:
    """The seams of a process: everything it may use of the outside."""

    clock: Clock
    rng: Rng
    ids: Ids
    net: "Net"
    disk: Disk
    proc: Proc
    host: Host


def system_seams(net: "Net", proc: SystemProc) -> Seams:
    """Return the seams of a real process; the network is given, since its form lives in a room above."""
    return Seams(
        clock=SystemClock(),
        rng=SystemRng(),
        ids=SystemIds(),
        net=net,
        disk=SystemDisk(),
        proc=proc,
        host=SystemHost(),
    )
