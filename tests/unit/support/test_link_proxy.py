"""The proxy between replicas knows who dials, and a cut is in force at once."""

import asyncio
import os
import socket
from contextlib import closing

import pytest

from tests.support.coordinator.link_proxy import LinkProxy, inode_of, owner_of

# Local port 40000 three times: an older connection that is closing, one to somewhere else, and the one that is meant.
TABLE = """\
   0: 0100007F:9C40 0100007F:1388 06 00000000:00000000 03:00000F4D 00000000     0        0 0 3 0000000000000000
   1: 0100007F:9C40 0100007F:1389 01 00000000:00000000 00:00000000 00000000     0        0 111 1 0000000000000000
   2: 0100007F:9C40 0100007F:138A 01 00000000:00000000 00:00000000 00000000     0        0 222 1 0000000000000000
   3: 0100007F:138A 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 333 1 0000000000000000
""".splitlines()


def test_a_local_port_that_several_connections_share_is_told_apart_by_where_they_lead() -> None:
    assert inode_of(40000, 5002, TABLE) == "222"
    assert inode_of(40000, 5001, TABLE) == "111"
    assert inode_of(40000, 5000, TABLE) is None  # closed, without a socket
    assert inode_of(40001, 5002, TABLE) is None


def test_the_owner_of_a_connection_is_the_process_that_dialled() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        target = server.getsockname()[1]
        with closing(socket.create_connection(("127.0.0.1", target))) as dialled:
            port = dialled.getsockname()[1]
            assert owner_of(port, target, {7: os.getpid()}) == 7
            assert owner_of(port, target, {7: 1}) is None


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(100):
        writer.write(data)
    writer.close()


@pytest.mark.rule("coordinator#leader-cut-off")
def test_nothing_passes_a_cut_link_and_all_of_it_does_when_healed() -> None:
    async def scenario() -> None:
        target = await asyncio.start_server(echo, "127.0.0.1", 0)
        async with target:
            proxy = LinkProxy(target.sockets[0].getsockname()[1], lambda: {1: os.getpid()})
            await proxy.start()
            reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
            writer.write(b"before")
            assert await reader.readexactly(6) == b"before"
            passed = proxy.passed[1]
            assert passed == 12
            # Written before the cut and not read by the proxy yet: held back as well.
            writer.write(b"during")
            proxy.block(1)
            for _ in range(100):
                await asyncio.sleep(0)
            assert proxy.passed[1] == passed
            proxy.unblock()
            assert await reader.readexactly(6) == b"during"
            writer.close()
            await writer.wait_closed()
            await proxy.stop()

    asyncio.run(scenario())


def test_a_caller_that_nobody_knows_is_not_carried() -> None:
    async def scenario() -> None:
        target = await asyncio.start_server(echo, "127.0.0.1", 0)
        async with target:
            proxy = LinkProxy(target.sockets[0].getsockname()[1], dict)
            await proxy.start()
            reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
            assert await reader.read() == b""
            assert proxy.unknown == 1
            assert not proxy.passed
            writer.close()
            await writer.wait_closed()
            await proxy.stop()

    asyncio.run(scenario())
