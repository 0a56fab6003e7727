"""The standard health service, grpc.health.v1, on every server.

Why: probes and load balancers ask it; `shard#grpc-health` puts it on every process, the shard included.
Must never: be gated, or forget a watcher: a slow one sees the newest status, not each one between.
Rules: `wire#codes`: the empty name is liveness, a service's name is its readiness. An unknown name is NOT_FOUND to `Check`,
SERVICE_UNKNOWN to `Watch`.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Final

from grpc_health.v1 import health_pb2  # type: ignore[import-untyped]  # the package ships no type marker

from bigfleet.aio.net import Call, Code, RpcRefusedError
from bigfleet.aio.service import ServiceSpec

HEALTH: Final = ServiceSpec(health_pb2.DESCRIPTOR.services_by_name["Health"])
CHECK: Final = HEALTH.unary("Check", health_pb2.HealthCheckRequest, health_pb2.HealthCheckResponse)
WATCH: Final = HEALTH.server_stream("Watch", health_pb2.HealthCheckRequest, health_pb2.HealthCheckResponse)

_Status = health_pb2.HealthCheckResponse
_SERVING: Final = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING: Final = health_pb2.HealthCheckResponse.NOT_SERVING
_UNKNOWN: Final = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


class HealthService:
    """Board and service in one; every named service starts as serving."""

    def __init__(self, services: Iterable[str]) -> None:
        self._statuses = dict.fromkeys(("", *services), _SERVING)
        self._changed = asyncio.Event()
        self._stopping = False

    def set_serving(self, service: str, serving: bool) -> None:
        """Set the status of one service; after `shut_down` nothing serves any more."""
        self._statuses[service] = _SERVING if serving and not self._stopping else _NOT_SERVING
        self._wake()

    def shut_down(self) -> None:
        """Turn everything to not serving, for good, and end all watches."""
        self._stopping = True
        self._statuses = dict.fromkeys(self._statuses, _NOT_SERVING)
        self._wake()

    async def check(
        self, request: health_pb2.HealthCheckRequest, _call: Call
    ) -> health_pb2.HealthCheckResponse:
        status = self._statuses.get(request.service)
        if status is None:
            raise RpcRefusedError(Code.NOT_FOUND, f"no service {request.service!r} here")
        return _Status(status=status)

    async def list(
        self, _request: health_pb2.HealthListRequest, _call: Call
    ) -> health_pb2.HealthListResponse:
        statuses = {name: _Status(status=status) for name, status in self._statuses.items()}
        return health_pb2.HealthListResponse(statuses=statuses)

    async def watch(
        self, request: health_pb2.HealthCheckRequest, _call: Call
    ) -> AsyncIterator[health_pb2.HealthCheckResponse]:
        sent: int | None = None
        while True:
            # Both before the status is sent, as things may change while a slow watcher takes it.
            changed, stopping = self._changed, self._stopping
            status = self._statuses.get(request.service, _UNKNOWN)
            if status != sent:
                sent = status
                yield _Status(status=status)
            if stopping:
                return  # a watch never ends by itself, so it would use up the whole grace of a stop
            await changed.wait()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
