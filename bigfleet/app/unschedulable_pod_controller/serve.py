"""The pod controller as a process: wiring, signals, shutdown.

Must never: touch a cluster before flags, defaults and kubeconfig have been validated; work without the lease under
--leader-elect; end with 0 when a part ended by itself.
Rules: `operator#single-replica`, `operator#process`, `operator#pod-controller`, `packaging#exit-codes`,
`packaging#pod-controller-flags`, `packaging#http`.
"""

import asyncio
from contextlib import AsyncExitStack, suppress
from os import fspath

import yaml

from bigfleet.aio.clock import SystemClock, timeout
from bigfleet.aio.disk import Disk
from bigfleet.aio.given_files import read_given
from bigfleet.aio.proc import SystemProc
from bigfleet.aio.rng import SystemRng
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.app.cluster_access import connect, own_lease
from bigfleet.app.parts import process_log, process_metrics, run_parts, serve_metrics
from bigfleet.app.unschedulable_pod_controller.command import PodControllerSettings
from bigfleet.cli.framework.console import Console
from bigfleet.document.strict_yaml import load_strict_yaml, problem_of
from bigfleet.kube.kubeconfig import Target
from bigfleet.kube.lease import Lease
from bigfleet.kube.login import find_target
from bigfleet.obs.connections import connection_report
from bigfleet.podcontroller.controller import COMPONENT, PodController, PodControllerOptions
from bigfleet.podcontroller.core.penalties import (
    NO_DEFAULTS,
    BadDefaultsError,
    PenaltyDefaults,
    read_defaults,
)
from bigfleet.podcontroller.metrics import POD_CONTROLLER_METRICS


def serve(settings: PodControllerSettings, console: Console) -> int:
    """Work until a signal comes; return the exit code."""
    disk = SystemDisk()
    defaults = load_defaults(settings, disk)
    target = find_target(console.environ, disk, kubeconfig=fspath(settings.kubeconfig or ""))
    return asyncio.run(_serve(settings, console, defaults, target, disk))


def load_defaults(settings: PodControllerSettings, disk: Disk) -> PenaltyDefaults:
    """Read the file of penalty defaults; raises BadDefaultsError, which names the class, for an unusable file."""
    if settings.priority_class_defaults is None:
        return NO_DEFAULTS
    path = fspath(settings.priority_class_defaults)
    try:
        document = load_strict_yaml(read_given(disk, path).decode())
    except UnicodeDecodeError:
        raise BadDefaultsError(f"{path}: not readable as text") from None
    except yaml.YAMLError as error:
        raise BadDefaultsError(f"{path}: not readable as YAML: {problem_of(error)}") from None
    return read_defaults(document, path)


async def _serve(
    settings: PodControllerSettings,
    console: Console,
    defaults: PenaltyDefaults,
    target: Target,
    disk: Disk,
) -> int:
    proc, clock, rng = SystemProc(), SystemClock(), SystemRng()
    with (
        process_log(settings, console, POD_CONTROLLER_METRICS.component) as log,
        proc.listen(),
    ):
        async with AsyncExitStack() as stack:
            metrics = process_metrics(POD_CONTROLLER_METRICS, console)
            client = connect(target, disk, clock, qps=settings.qps, burst=settings.burst)
            stack.push_async_callback(client.close)
            host = console.environ.get("HOSTNAME", "")
            controller = PodController(
                client,
                clock=clock,
                rng=rng,
                metrics=metrics,
                options=options_of(settings),
                defaults=defaults,
                host=host,
            )
            not_ready = controller.caches.not_ready
            report = connection_report(metrics, log, clock)
            metrics_port = await serve_metrics(
                stack, settings.metrics_addr, metrics, not_ready, report=report
            )
            log.info("listening", server=target.server, metrics_port=metrics_port)

            async def settle() -> None:
                with suppress(TimeoutError):
                    async with timeout(clock, settings.shutdown_grace):
                        await controller.settle()

            lease = own_lease(client, target, COMPONENT, host, clock=clock, rng=rng)
            working = lead(lease, controller) if settings.leader_elect else controller.work()
            return await run_parts(
                {"caches": controller.keep_caches(), "work": working},
                proc=proc,
                clock=clock,
                log=log,
                metrics=metrics,
                on_stop=settle,
            )


async def lead(lease: Lease, controller: PodController) -> None:
    """Work while this process holds the lease; a standby keeps its caches, so that it can begin at once."""
    while not await lease.lead(controller.work):
        pass  # the lease was lost


def options_of(settings: PodControllerSettings) -> PodControllerOptions:
    """Return the options that the flags describe."""
    return PodControllerOptions(
        concurrency=settings.concurrency,
        resync_s=settings.resync_interval,
        exclude_daemonset_pods=settings.exclude_daemonset_pods,
        pod_events=settings.pod_events,
    )
