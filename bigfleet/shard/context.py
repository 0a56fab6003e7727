"""What the parts of one shard share: its options, its seams, its inventory, its metrics and its log."""

from dataclasses import dataclass

from structlog.typing import FilteringBoundLogger

from bigfleet.aio.clock import Clock, SteadyWall
from bigfleet.aio.host import Host
from bigfleet.aio.ids import Ids
from bigfleet.aio.rng import Rng
from bigfleet.obs.metrics import Metrics
from bigfleet.shard.core.actuation import Actuation
from bigfleet.shard.core.bootstrap_backoff import BootstrapBackoffs
from bigfleet.shard.core.latency import FirstSeen
from bigfleet.shard.core.setbacks import Setbacks
from bigfleet.shard.core.waiting_needs import WaitingNeeds
from bigfleet.shard.guarded_inventory import GuardedInventory
from bigfleet.shard.options import ShardOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardContext:
    """The shared parts of one shard."""

    options: ShardOptions
    clock: Clock
    steady: SteadyWall
    host: Host
    ids: Ids
    rng: Rng
    guarded: GuardedInventory
    actuation: Actuation
    backoffs: BootstrapBackoffs
    setbacks: Setbacks
    waiting: WaitingNeeds
    first_seen: FirstSeen
    metrics: Metrics
    log: FilteringBoundLogger
