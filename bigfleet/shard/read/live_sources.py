"""What a running shard tells its readers besides its views.

Must never: give a reader more than calls that change nothing.
Rules: `shard#coverage-split`, `shard#problems-in-one-look`.
"""

from bigfleet.shard.core.read.status_sources import StatusSources
from bigfleet.shard.shard import Shard


def live_sources(shard: Shard) -> StatusSources:
    """The sources that the shard itself has; the process adds version, counters and coordinator."""
    return StatusSources(
        cycle_interval_s=shard.options.cycle_interval_s,
        actuation_paused=shard.options.actuation_paused,
        held_rollups=shard.intake.held_rollups,
        is_pending=shard.dispatcher.is_pending,
        live_states=shard.live_states,
        now_s=shard.steady.now_s,
        self_pause=shard.actuation.self_pause,
        audit_lost=shard.actuation.audit_problem,
    )
