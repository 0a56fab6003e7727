"""The network of a real process: gRPC over TCP, inside mutual TLS where the process has certificates.

Why: the system form of `bigfleet.aio.net.Net`.
Must never: mix secured and plaintext edges; the TLS flags hold for every gRPC edge of a process (`wire#identity`).
"""

from collections.abc import Sequence

from bigfleet.aio.clock import Clock, SystemClock
from bigfleet.aio.connection_report import NO_REPORT, ConnectionReport
from bigfleet.aio.net import DialOptions, ServeOptions, ServerHooks
from bigfleet.aio.service import BoundService
from bigfleet.transport.address import parse_listen
from bigfleet.transport.connections import GrpcLimits
from bigfleet.transport.dispatch import Dispatcher, log_hooks
from bigfleet.transport.grpc_channel import GrpcChannel
from bigfleet.transport.grpc_server import GrpcServer, start_server
from bigfleet.transport.keepalive import KEEPALIVE, Keepalive
from bigfleet.transport.tls import TlsStore

_DIAL = DialOptions()
_SERVE = ServeOptions()
_CLOCK = SystemClock()
_LIMITS = GrpcLimits()


class GrpcNet:
    """Dials and serves on gRPC; see `bigfleet.aio.net.Net`."""

    def __init__(
        self,
        tls: TlsStore | None = None,
        hooks: ServerHooks | None = None,
        *,
        keepalive: Keepalive = KEEPALIVE,
        limits: GrpcLimits = _LIMITS,
        report: ConnectionReport = NO_REPORT,
        clock: Clock = _CLOCK,
    ) -> None:
        self._tls, self._keepalive, self._clock = tls, keepalive, clock
        self._limits, self._report = limits, report
        self._hooks = hooks or log_hooks()

    def dial(self, target: str, options: DialOptions = _DIAL) -> GrpcChannel:
        return GrpcChannel(target, options, self._tls, self._keepalive, self._clock)

    async def serve(
        self, address: str, services: Sequence[BoundService], options: ServeOptions = _SERVE
    ) -> GrpcServer:
        dispatcher = Dispatcher(self._hooks, options.statuses)
        place = parse_listen(address)
        return await start_server(
            place,
            services,
            options,
            dispatcher,
            tls=self._tls,
            keepalive=self._keepalive,
            clock=self._clock,
            limits=self._limits,
            report=self._report,
        )
