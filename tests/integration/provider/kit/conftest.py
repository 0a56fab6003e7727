"""Providers over real sockets, on loopback, each on its own port."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import UTC, datetime
from io import StringIO

import pytest_asyncio

from bigfleet.aio.net import PROVIDER_MAX_MESSAGE_BYTES, DialOptions, RpcServer
from bigfleet.obs.logs import build_logger
from bigfleet.provider.kit.core.values import DescribedMachine
from bigfleet.provider.kit.kit import ProviderKit
from bigfleet.provider.kit.limits import Limits
from bigfleet.provider.kit.raw_client import RawProviderClient
from bigfleet.provider.kit.store import Volatile
from bigfleet.providerkit.scripted import ScriptedBackend
from bigfleet.transport.grpc_net import GrpcNet
from tests.support.builders import shape

ServeKit = Callable[..., Awaitable[tuple[ProviderKit, RpcServer]]]
DialKit = Callable[..., RawProviderClient]


@pytest_asyncio.fixture
async def serve() -> AsyncGenerator[ServeKit, None]:
    """Start a provider with so many slots; `net` and whatever the kit takes may be given."""
    started: list[ProviderKit] = []

    async def start(
        slots: int = 4, *, net: GrpcNet | None = None, host: bool = False, **options: object
    ) -> tuple[ProviderKit, RpcServer]:
        shared = shape()
        described = [DescribedMachine(f"m-{n}", shared, f"h-{n}" if host else "") for n in range(slots)]
        given: dict[str, object] = {
            "store": Volatile(),
            "limits": Limits(refresh=0),
            "log": build_logger(level="error", form="json", stream=StringIO(), now=lambda: datetime.now(UTC)),
            "backend": ScriptedBackend(described),
            **options,
        }
        backend = given.pop("backend")
        kit = ProviderKit(backend, name="acme", **given)  # type: ignore[arg-type]  # by name, one test each
        await kit.start()
        started.append(kit)
        return kit, await kit.listen("127.0.0.1:0", net=net)

    yield start
    for kit in started:
        await kit.stop(0)


@pytest_asyncio.fixture
async def dial() -> AsyncGenerator[DialKit, None]:
    """Make clients, each with a connection of its own."""
    channels = []

    def connect(server: RpcServer, net: GrpcNet | None = None) -> RawProviderClient:
        channel = (net or GrpcNet()).dial(
            f"127.0.0.1:{server.port}", DialOptions(max_message_bytes=PROVIDER_MAX_MESSAGE_BYTES)
        )
        channels.append(channel)
        return RawProviderClient(channel)

    yield connect
    for channel in channels:
        await channel.close()
