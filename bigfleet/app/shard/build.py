"""Builds a shard from its flags and seams: provider, audit file, listeners.

Why: `bigfleet shard`, all-in-one and tests over real sockets start the same shard.
Must never: listen before everything else that can fail at start has succeeded.
Rules: `shard#start-and-stop`, `shard#large-listings`, `shard#in-process-fake`.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from structlog.typing import FilteringBoundLogger

from bigfleet.aio.given_files import INVENTORY_BYTES, read_given
from bigfleet.aio.net import PROVIDER_REDIAL, Channel, DialOptions, RpcServer, ServeOptions
from bigfleet.aio.seams import Seams
from bigfleet.app.parts import flag_errors
from bigfleet.app.shard.command import ShardSettings
from bigfleet.app.shard.readers import ShardReaders, readers_of
from bigfleet.obs.audit import Audit, AuditFile, NoAudit
from bigfleet.obs.metrics import Metrics
from bigfleet.provider.client import ProviderClient
from bigfleet.provider.fake.catalogue_file import read_catalogue
from bigfleet.provider.fake.latency import fixed
from bigfleet.provider.fake.options import FakeOptions
from bigfleet.provider.fake.provider import FakeProvider
from bigfleet.provider.fake.seeding import CatalogueSeed
from bigfleet.shard.core.read.decision_log import DecisionLog
from bigfleet.shard.epoch import DataDirectory
from bigfleet.shard.options import ShardOptions
from bigfleet.shard.ownership_file import OwnershipFile
from bigfleet.shard.read.recording_audit import RecordingAudit
from bigfleet.shard.shard import IN_PROCESS_FAKE, Shard
from bigfleet.transport.address import is_exposed
from bigfleet.wire.rollup_limits import RollupLimits
from bigfleet.workload.archetype import Catalogue
from bigfleet.workload.catalogues import CATALOGUES, REALISTIC


def options_of(settings: ShardSettings) -> ShardOptions:
    """Return the options that the flags describe."""
    defaults = ShardOptions()
    return ShardOptions(
        shard_id=settings.id,
        provider_address=settings.provider_addr,
        advertise_address=settings.advertise_addr or str(settings.listen),
        plaintext_exposed=is_exposed(settings.listen, secured=settings.tls_cert is not None),
        cycle_interval_s=settings.cycle_interval,
        list_timeout_s=settings.list_timeout,
        transition_poll_interval_s=settings.transition_poll_interval,
        execute_concurrency=settings.execute_concurrency,
        max_actions_per_cycle=settings.max_actions_per_cycle,
        incremental_reconcile=settings.incremental_reconcile,
        available_capacity_interval_s=settings.available_capacity_interval
        or defaults.available_capacity_interval_s,
        metrics_warmup_cycles=settings.metrics_warmup_cycles,
        phase_attribution_log=settings.phase_attribution_log,
        actuation_paused=settings.actuation_paused,
        dry_run=settings.dry_run,
        reclaim_cap_fraction=settings.reclaim_cap_fraction,
        empty_rollup_guard=settings.empty_rollup_guard,
        rollup_limits=RollupLimits(settings.max_rows_per_cluster, settings.max_rollup_bytes),
        listing_guard_window_s=settings.listing_guard_window,
        audit_strict=settings.audit_strict,
        local_bootstrap=settings.local_bootstrap,
        hello_timeout_s=settings.hello_timeout,
        max_silent_streams=settings.max_silent_streams,
        max_sessions=settings.max_sessions,
        max_session_age_s=settings.max_session_age,
        ingest_share=settings.ingest_share,
    )


@dataclass(frozen=True, slots=True)
class RunningShard:
    """A shard that listens; the caller runs `shard.run()`."""

    shard: Shard
    server: RpcServer
    readers: ShardReaders
    """The read services and the coordinator client; the caller runs their parts too."""
    fake: FakeProvider | None
    """The in-process provider, if there is one."""


@asynccontextmanager
async def listening_shard(
    settings: ShardSettings,
    seams: Seams,
    *,
    data: DataDirectory,
    metrics: Metrics,
    log: FilteringBoundLogger,
    fake: FakeProvider | None = None,
) -> AsyncIterator[RunningShard]:
    """Build a shard that listens until the block ends, then stop it within its shutdown grace.

    Without --provider-addr the shard uses `fake`, or a fake provider made from the seed flags.
    """
    async with AsyncExitStack() as stack:
        if settings.provider_addr:
            fake = None
            options = DialOptions(
                max_message_bytes=settings.provider_max_message_bytes, redial=PROVIDER_REDIAL
            )
            channel: Channel = seams.net.dial(settings.provider_addr, options)
        else:
            log.warning("in_process_fake", meaning=IN_PROCESS_FAKE)
            fake = fake or fake_provider(settings, seams, log)
            await fake.start()
            stack.push_async_callback(fake.stop, 0)
            channel = fake.channel()
        stack.push_async_callback(channel.close)
        audit: Audit = NoAudit()
        if settings.audit_log is not None:
            with flag_errors("--audit-log"):
                audit = AuditFile(
                    seams.disk,
                    settings.audit_log,
                    now_ns=seams.clock.wall_ns,
                    max_bytes=settings.audit_max_bytes,
                    keep=settings.audit_keep,
                )
        decisions = DecisionLog()
        shard = Shard(
            options_of(settings),
            seams,
            provider=ProviderClient(channel, shard_id=settings.id, epoch=data.epoch),
            epoch=data.epoch,
            metrics=metrics,
            log=log,
            audit=RecordingAudit(audit, decisions, seams.clock.wall_ns),
            ownership=_ownership_file(settings, seams),
        )
        readers = readers_of(settings, shard, decisions, seams=seams, metrics=metrics, log=log)
        # All services of the session port; read services see the shard as `ShardViews`.
        services = (*shard.services(), *readers.services())
        server = await seams.net.serve(
            str(settings.listen), services, ServeOptions(reflection=settings.reflection)
        )
        stack.push_async_callback(server.stop, 0)
        stack.push_async_callback(shard.stop, settings.shutdown_grace)
        yield RunningShard(shard, server, readers, fake)


def _ownership_file(settings: ShardSettings, seams: Seams) -> OwnershipFile | None:
    """Return the ownership file of a shard that shares its provider; raises if another partition key wrote it."""
    if not settings.shared_provider:
        return None
    file = OwnershipFile(seams.disk, settings.data_dir, settings.partition_key)
    with flag_errors("--partition-key"):
        file.load()
    return file


def fake_provider(settings: ShardSettings, seams: Seams, log: FilteringBoundLogger) -> FakeProvider:
    """Return the in-process provider with the machines of the seed flags."""
    seed = CatalogueSeed(
        catalogue=_catalogue(settings, seams),
        idle=settings.seed_machines,
        speculative=settings.seed_speculative,
        spot=settings.seed_spot,
        configured_per_cluster=settings.seed_configured_per_cluster,
        clusters=settings.seed_cluster_total,
        density=settings.seed_density_multiplier,
        ordinal=settings.ordinal if settings.seed_configured_per_cluster and settings.ordinal else 0,
        shards=max(1, settings.seed_cluster_stride),
        owner_shard=settings.id,
    )
    options = FakeOptions(
        loss_per_hour=settings.failure_rate_per_sec * 3600,
        latencies={"create": fixed(settings.fake_create_latency)} if settings.fake_create_latency else {},
    )
    return FakeProvider(options, seed.slots, clock=seams.clock, ids=seams.ids, net=seams.net, log=log)


def _catalogue(settings: ShardSettings, seams: Seams) -> Catalogue:
    if not settings.archetypes:
        return REALISTIC
    known = {catalogue.name: catalogue for catalogue in CATALOGUES}
    if settings.archetypes in known:
        return known[settings.archetypes]
    return read_catalogue(read_given(seams.disk, Path(settings.archetypes), INVENTORY_BYTES))
