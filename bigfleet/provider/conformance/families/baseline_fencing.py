"""Baseline behaviours A17 to A22: the fence, per shard and machine.

Must never: use a shard id of another behaviour; marks outlive a run.
Rules: `providers#fence-mark`, `providers#family-baseline-fencing`, `providers#empty-token`; ADR-0058.

Tokens are tried by Create, which is idempotent at I; on bare metal by Configure, which is idempotent at C.
"""

from typing import Final

from bigfleet.provider.conformance.behaviour import Behaviour, Lane, behaviour
from bigfleet.provider.conformance.checks import accepted, fenced, listed
from bigfleet.provider.conformance.context import BehaviourContext

_BASELINE: Final = Lane.BASELINE


@behaviour("A17", "FencingUnknownShardAccepted", lane=_BASELINE)
async def unknown_shard(context: BehaviourContext) -> None:
    """The first token of a shard is accepted, its repetition is fenced.

    1. Create a slot with (1,1): OK.
    2. The same again: FAILED_PRECONDITION.
    """
    probe = await context.fence_probe()
    accepted(await probe(context.shard(), 1, 1), "first contact with (1,1)")
    fenced(await probe(context.shard(), 1, 1), "replay of (1,1)")


@behaviour("A18", "FencingStaleEpochRejected", lane=_BASELINE)
async def stale_epoch(context: BehaviourContext) -> None:
    """An older epoch is fenced, however high its sequence.

    1. Create a slot with (2,1): OK.
    2. Again with (1,99): FAILED_PRECONDITION.
    """
    probe = await context.fence_probe()
    accepted(await probe(context.shard(), 2, 1), "first contact with (2,1)")
    fenced(await probe(context.shard(), 1, 99), "(1,99) after (2,1)")


@behaviour("A19", "FencingStaleSequenceRejected", lane=_BASELINE)
async def stale_sequence(context: BehaviourContext) -> None:
    """Within an epoch a sequence that is not greater is fenced.

    1. Create a slot with (1,5): OK.
    2. Again with (1,5) and with (1,4): FAILED_PRECONDITION both.
    """
    probe = await context.fence_probe()
    accepted(await probe(context.shard(), 1, 5), "first contact with (1,5)")
    fenced(await probe(context.shard(), 1, 5), "replay of (1,5)")
    fenced(await probe(context.shard(), 1, 4), "(1,4) after (1,5)")


@behaviour("A20", "FencingPerMachineIsolation", lane=_BASELINE)
async def per_machine(context: BehaviourContext) -> None:
    """The mark of one machine does not concern another.

    1. Take two slots. A (1,30): OK. B (1,7): OK.
    2. B (1,7), A (1,30), B (0,999): FAILED_PRECONDITION each.
    """
    one, other = await context.fence_probes(2)
    shard = context.shard()
    accepted(await one(shard, 1, 30), "machine A with (1,30)")
    accepted(await other(shard, 1, 7), "machine B with (1,7)")
    fenced(await other(shard, 1, 7), "machine B with (1,7) again")
    fenced(await one(shard, 1, 30), "machine A with (1,30) again")
    fenced(await other(shard, 0, 999), "machine B with (0,999)")


@behaviour("A21", "FencingNewEpochResetsSequence", lane=_BASELINE)
async def new_epoch(context: BehaviourContext) -> None:
    """A higher epoch may start its sequence again.

    1. Create a slot with (1,1000): OK.
    2. Again with (2,1): OK.
    """
    probe = await context.fence_probe()
    accepted(await probe(context.shard(), 1, 1000), "first contact with (1,1000)")
    accepted(await probe(context.shard(), 2, 1), "(2,1) after (1,1000)")


@behaviour("A22", "FencingReadsUnaffected", lane=_BASELINE)
async def reads_unaffected(context: BehaviourContext) -> None:
    """Reads are never fenced.

    1. Create a slot with (9,9): OK; again with (1,1): FAILED_PRECONDITION.
    2. Get and List: OK.
    """
    probe = await context.fence_probe()
    accepted(await probe(context.shard(), 9, 9), "first contact with (9,9)")
    fenced(await probe(context.shard(), 1, 1), "(1,1) after (9,9)")
    await context.get(probe.machine_id)
    listed(await context.calls.list(), "List after a fenced call")


BASELINE_FENCING: Final[tuple[Behaviour, ...]] = (
    unknown_shard,
    stale_epoch,
    stale_sequence,
    per_machine,
    new_epoch,
    reads_unaffected,
)
