"""A simulated cluster as a process: reads its file and keeps a session until a signal comes.

Must never: dial before the file has been validated.
Rules: `packaging#exit-codes`, `packaging#other-commands`.
"""

import asyncio

from bigfleet.aio.given_files import INVENTORY_BYTES
from bigfleet.aio.proc import SystemProc
from bigfleet.aio.seams import system_seams
from bigfleet.app.cluster_sim.command import ClusterSimSettings
from bigfleet.app.parts import process_log, read_flag_file, run_until_stop, tls_store
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.errors import UsageError
from bigfleet.clustersim.core.demand import SimulatedDemand
from bigfleet.clustersim.fleet import demand_of
from bigfleet.clustersim.session import SimulatedCluster
from bigfleet.model.errors import InvalidFieldError
from bigfleet.transport.grpc_net import GrpcNet


def serve(settings: ClusterSimSettings, console: Console) -> int:
    """Run until a signal comes; return the exit code."""
    try:
        demand = demand_of(read_flag_file("--demand", settings.demand, INVENTORY_BYTES), settings.cluster_id)
    except InvalidFieldError as error:
        raise UsageError(f"--demand: {settings.demand}: {error}") from None
    return asyncio.run(_serve(settings, console, demand))


async def _serve(settings: ClusterSimSettings, console: Console, demand: SimulatedDemand) -> int:
    proc = SystemProc()
    with (
        process_log(settings, console, "cluster-sim", cluster=settings.cluster_id) as log,
        proc.listen(),
    ):
        seams = system_seams(GrpcNet(tls_store(settings, log)), proc)
        cluster = SimulatedCluster(
            settings.cluster_id,
            settings.shard_addr,
            demand,
            net=seams.net,
            clock=seams.clock,
            stream=seams.rng.stream("cluster-sim"),
            on_event=lambda _kind, words: console.print_now(words),
        )
        await run_until_stop({"cluster": cluster.run()}, proc, log)
        return proc.exit_code
