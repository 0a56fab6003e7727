"""The proxy that goes silent as a network does (`tests.support.faulty_link`)."""

import asyncio

import pytest

from bigfleet.coordinator.raft.relays import stop_listening
from tests.support.faulty_link import FaultyLink

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1000):
        writer.write(data)
        await writer.drain()
    writer.close()


async def test_nothing_passes_while_it_is_silent_and_nothing_is_lost_when_it_heals() -> None:
    echo = await asyncio.start_server(_echo, "127.0.0.1", 0)
    seen: list[tuple[bool, bytes]] = []
    link = FaultyLink(
        echo.sockets[0].getsockname()[1], lambda to_target, data: seen.append((to_target, data))
    )
    await link.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
    writer.write(b"one")
    assert await reader.readexactly(3) == b"one"
    link.silence()
    writer.write(b"two")
    late_reader, late_writer = await asyncio.open_connection("127.0.0.1", link.port)
    late_writer.write(b"three")
    answers = [
        asyncio.ensure_future(reader.readexactly(3)),
        asyncio.ensure_future(late_reader.readexactly(5)),
    ]
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await asyncio.shield(asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED))
    link.heal()
    async with asyncio.timeout(30):
        assert await asyncio.gather(*answers) == [b"two", b"three"]
    assert seen[:2] == [(True, b"one"), (False, b"one")]
    writer.close()
    late_writer.close()
    await link.stop()
    await stop_listening(echo)


async def test_a_target_that_is_away_ends_the_connection() -> None:
    gone = await asyncio.start_server(_echo, "127.0.0.1", 0)
    port = gone.sockets[0].getsockname()[1]
    await stop_listening(gone)
    link = FaultyLink(port)
    await link.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
    async with asyncio.timeout(30):
        assert await reader.read() == b""
    writer.close()
    await link.stop()
