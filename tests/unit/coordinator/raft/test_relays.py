"""The relays end without leaving a connection to the collector, whenever it came."""

import asyncio
import gc
import socket
from contextlib import closing

import pytest

from bigfleet.coordinator.raft.pipes import PipeEnd
from bigfleet.coordinator.raft.relays import Relays, stop_listening
from bigfleet.transport.address import ListenAddress


async def in_the_moment_of_an_accept(made: list[PipeEnd]) -> tuple[asyncio.Server, socket.socket]:
    """Return a server that has accepted a connection in this very turn of the loop, and the far end of it."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: PipeEnd(made.append), "127.0.0.1", 0)
    far = socket.create_connection(server.sockets[0].getsockname())
    await asyncio.sleep(0)  # the loop sees it
    await asyncio.sleep(0)  # it is accepted, and about to be attached to its server
    assert not made
    return server, far


def test_a_connection_accepted_in_the_moment_of_closing_has_an_owner() -> None:
    async def scenario() -> None:
        made: list[PipeEnd] = []
        server, far = await in_the_moment_of_an_accept(made)
        with closing(far):
            await stop_listening(server)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            (leg,) = made
            leg.close()
            await leg.ended

    asyncio.run(scenario())
    gc.collect()


def test_closing_a_server_by_itself_would_lose_that_connection() -> None:
    """Why `stop_listening` exists; when this fails, asyncio has been mended and it can go."""

    async def scenario() -> None:
        made: list[PipeEnd] = []
        server, far = await in_the_moment_of_an_accept(made)
        with closing(far):
            server.close()
            for _ in range(5):
                await asyncio.sleep(0)
            assert not made

    def run() -> None:
        asyncio.run(scenario())
        gc.collect()

    with pytest.warns(ResourceWarning, match="unclosed"):
        run()


def test_relays_that_end_while_everybody_dials_leave_nothing_open() -> None:
    async def scenario() -> None:
        refused: list[str] = []
        for _ in range(20):
            relays = Relays(
                ListenAddress("127.0.0.1", 0),
                {"peer": ("127.0.0.1", 9)},
                None,
                on_refused=lambda reason, _detail: refused.append(reason),
                on_dead=lambda _error: None,
            )
            await relays.start()
            far = [
                socket.create_connection(("127.0.0.1", port))
                for port in (relays.port, relays.ports["peer"])
                for _ in range(5)
            ]
            await relays.stop()
            for each in far:
                each.close()

    asyncio.run(scenario())
    gc.collect()
