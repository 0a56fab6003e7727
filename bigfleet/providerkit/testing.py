"""Test a provider without a disk, real machines or real waiting.

    async def scenario() -> None:
        async with VirtualProvider(ScriptedBackend([DescribedMachine.of("m-1", ...)])) as provider:
            await provider.client.create("m-1")
            assert (await provider.settled("m-1"))[0].host

    run_virtual(scenario())

Rules: `providers#new-provider`.
"""

from bigfleet.provider.kit.core.fence import FencingToken
from bigfleet.provider.kit.raw_client import RawProviderClient
from bigfleet.providerkit.scripted import (
    BackendCall,
    MemoryStore,
    ReadyBackend,
    ScriptedBackend,
    WatchingBackend,
)
from bigfleet.providerkit.virtual import VirtualProvider
from bigfleet.testing.clock import VirtualClock
from bigfleet.testing.loop import run_virtual
from bigfleet.testing.net.network import Network

__all__ = [
    "BackendCall",
    "FencingToken",
    "MemoryStore",
    "Network",
    "RawProviderClient",
    "ReadyBackend",
    "ScriptedBackend",
    "VirtualClock",
    "VirtualProvider",
    "WatchingBackend",
    "run_virtual",
]
