"""How soon a channel dials again, over real sockets.

A deadline here is for a fact, never a measure: with the long waits of the default, none of these facts comes in time.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import pytest

from bigfleet.aio.net import PROVIDER_REDIAL, DialOptions, RedialPolicy
from bigfleet.model.errors import InvalidFieldError
from bigfleet.transport.grpc_net import GrpcNet

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]

SOON_S = 15.0


class Listener:
    """Accepts connections and says nothing; hangs up at once where asked."""

    def __init__(self, *, hangs_up: bool) -> None:
        self._hangs_up = hangs_up
        self.accepted = asyncio.Semaphore(0)
        self._writers: list[asyncio.StreamWriter] = []

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncGenerator[int, None]:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            for writer in self._writers:
                writer.close()

    async def _accept(self, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        self.accepted.release()
        if self._hangs_up:
            writer.close()


async def dials(listener: Listener, redial: RedialPolicy, number: int) -> None:
    """Wait until a watched channel has dialled so often; `TimeoutError` when that takes too long."""
    async with listener.open() as port:
        channel = GrpcNet().dial(f"127.0.0.1:{port}", DialOptions(redial=redial))

        async def watch() -> None:
            async for connected in channel.connectivity():
                assert not connected

        watching = asyncio.create_task(watch())
        try:
            async with asyncio.timeout(SOON_S):
                for _ in range(number):
                    await listener.accepted.acquire()
        finally:
            await channel.close()
            await watching


@pytest.mark.rule("shard#provider-reconnect")
async def test_a_provider_that_refuses_is_dialled_every_second_and_not_ever_more_rarely() -> None:
    await dials(Listener(hangs_up=True), PROVIDER_REDIAL, 8)


@pytest.mark.rule("shard#provider-reconnect")
async def test_a_dial_that_gets_no_answer_is_given_up_after_its_time_and_made_again() -> None:
    await dials(Listener(hangs_up=False), RedialPolicy(0.1, 0.2, connect_timeout_s=0.5), 4)


async def test_a_redial_policy_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(InvalidFieldError, match=r"first_s.*at most ceiling_s"):
        RedialPolicy(first_s=2.0, ceiling_s=1.0)
    with pytest.raises(InvalidFieldError, match="connect_timeout_s"):
        RedialPolicy(connect_timeout_s=0)
