"""Requests byte by byte, as no client library would send them."""

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

DEADLINE_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """The head and body of an answer, headers by lower-case name."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode()


class RawConnection:
    """One connection to 127.0.0.1."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer

    async def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, *, whole: bool = True) -> RawAnswer:
        """Return the next answer; without its body if it may never end."""
        async with asyncio.timeout(DEADLINE_S):
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
            body = b""
            if whole and (length := headers.get("content-length")) is not None:
                body = await self._reader.readexactly(int(length))
            elif whole and headers.get("transfer-encoding") == "chunked":
                while size := int(await self._reader.readline(), 16):
                    body += (await self._reader.readexactly(size + 2))[:-2]
        return RawAnswer(int(first.split(" ")[1]), headers, body)

    async def ended(self) -> bytes:
        """Return what comes until the server ends the connection; `TimeoutError` when it does not."""
        async with asyncio.timeout(DEADLINE_S):
            try:
                return await self._reader.read()
            except ConnectionError:
                return b""
            finally:
                self.abort()

    def abort(self) -> None:
        """End the connection with a reset."""
        self.writer.transport.abort()


async def connect(port: int, tls: ssl.SSLContext | None = None) -> RawConnection:
    """Connect to a port of this host."""
    return RawConnection(*await asyncio.open_connection("127.0.0.1", port, ssl=tls))


async def ask(
    port: int,
    target: str = "/",
    *,
    method: str = "GET",
    headers: bytes | None = None,
    host: str = "localhost",
    body: bytes = b"",
    whole: bool = True,
) -> RawAnswer:
    """Send one request and return its answer; `headers` are lines as they are, in place of the host."""
    connection = await connect(port)
    lines = f"Host: {host}\r\n".encode() if headers is None else headers
    await connection.send(f"{method} {target} HTTP/1.1\r\n".encode() + lines + b"\r\n" + body)
    try:
        return await connection.answer(whole=whole and method != "HEAD")
    finally:
        connection.abort()
