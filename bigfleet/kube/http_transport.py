"""The transport over HTTP: the asyncio client of the Kubernetes package, used only for its connections.

Why: the package does TLS, proxies, connection pools and credential plugins well, but not models, watches, informers, retries
and leader election (`operator#kubernetes-client`).
Must never: retry, interpret a status, log a header, or leave a key on the disk. (The HTTP library repeats a call with an
idempotent method once, on a fresh connection, when a kept one turns out dead.)
Rules: `operator#raw-json`, `operator#login`; only this module knows the client library.
"""

import asyncio
import json
import tempfile
import weakref
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import aiohttp
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.config import ConfigException
from kubernetes.aio.config.exec_provider import ExecProvider
from kubernetes.aio.config.kube_config import ConfigNode

from bigfleet.kube.errors import LoginError, UnauthorizedError, UnreachableError
from bigfleet.kube.login import Credentials, Login
from bigfleet.kube.transport import ApiCall, ApiResponse, WatchLines
from bigfleet.version import __version__

# 32 handlers, 16 acknowledgements, 16 evictions, and the watches, which keep theirs.
CONNECTIONS: Final = 100
CONNECT_S: Final = 10.0
MAX_LINE: Final = 16 * 1024 * 1024
# Any: the library types some of its calls and leaves others bare.
_Api = Any
_RUN_PLUGIN: Final[Any] = ExecProvider
_PLUGIN_SECTION: Final[Any] = ConfigNode
_BROKEN: Final = (aiohttp.ClientError, TimeoutError, OSError, ValueError)


class _Pool(aiohttp.TCPConnector):
    """Connections that can all be aborted at once.

    A TLS shutdown waits up to half a minute for the server, longer than the pool lives. A call that was cut short leaves such
    a connection, and the process would end with it open.
    """

    def __init__(self, connections: int, context: Any) -> None:  # Any: the TLS context that the library made
        super().__init__(limit=connections, ssl=context)
        self._made: weakref.WeakKeyDictionary[asyncio.BaseTransport, None] = weakref.WeakKeyDictionary()

    async def connect(
        self, *about: Any, **more: Any
    ) -> aiohttp.connector.Connection:  # Any: the library's own
        connection = await super().connect(*about, **more)
        if connection.transport is not None:
            self._made[connection.transport] = None
        return connection

    async def abort(self) -> None:
        """Abort every open connection, without waiting for the server."""
        await self.close(abort_ssl=True)
        for transport in list(self._made):
            if isinstance(transport, asyncio.WriteTransport):
                transport.abort()
        loop = asyncio.get_running_loop()
        gone = loop.create_future()
        loop.call_soon(gone.set_result, None)  # sockets are closed one turn after the abort
        await gone


class _Session:
    """One connection pool and its certificates; closed when replaced and no longer in use."""

    def __init__(self, api: _Api, pool: _Pool, made_with: Credentials) -> None:
        self.api, self.made_with = api, made_with
        self._pool = pool
        self.in_use = 0
        self.retired = False

    def fits(self, credentials: Credentials) -> bool:
        """Return whether its certificates are current; the token is not part of a connection."""
        mine = self.made_with
        return (mine.ca, mine.cert, mine.key) == (credentials.ca, credentials.cert, credentials.key)

    async def settle(self) -> None:
        """Close the pool if it was replaced and is no longer in use."""
        if self.retired and not self.in_use:
            await self.close()

    async def close(self) -> None:
        """Close the pool and all its connections."""
        await self.api.close()
        await self._pool.abort()


class HttpTransport:
    """Sends calls to the API server of a login; must be made and closed on one event loop."""

    def __init__(self, login: Login, *, connections: int = CONNECTIONS) -> None:
        self._login, self._connections = login, connections
        self._session: _Session | None = None

    async def send(self, call: ApiCall) -> ApiResponse:
        async with self._use(call) as (api, headers):
            limit = aiohttp.ClientTimeout(total=call.deadline_s, sock_connect=CONNECT_S)
            try:
                response = await api.call_api(
                    call.method, self._url(call), headers, call.body, _request_timeout=limit
                )
                content = await response.read()
            except _BROKEN as error:
                raise _unreachable(call, error) from error
        return ApiResponse(response.status, _decoded(content), dict(response.headers))

    def open(self, call: ApiCall) -> AbstractAsyncContextManager[WatchLines]:
        return self._open(call)

    @asynccontextmanager
    async def _open(self, call: ApiCall) -> AsyncIterator[WatchLines]:
        async with self._use(call) as (api, headers):
            limit = aiohttp.ClientTimeout(total=call.deadline_s, sock_connect=CONNECT_S)
            try:
                response = await api.call_api(
                    call.method, self._url(call), headers, call.body, _request_timeout=limit
                )
                raw: aiohttp.ClientResponse = response.response
                body = "" if raw.status == 200 else _decoded(await response.read())
            except _BROKEN as error:
                raise _unreachable(call, error) from error
            try:
                yield _HttpLines(call, raw, ApiResponse(raw.status, body, dict(raw.headers)))
            finally:
                _abort(raw)

    async def renew_login(self) -> None:
        try:
            await self._login.renew()
        except LoginError as error:
            raise UnauthorizedError("login", str(error)) from error

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    @asynccontextmanager
    async def _use(self, call: ApiCall) -> AsyncIterator[tuple[_Api, dict[str, str]]]:
        try:
            credentials = await self._login.credentials()
            session = await self._session_for(credentials)
        except LoginError as error:
            raise UnauthorizedError(call.title, str(error)) from error
        session.in_use += 1
        try:
            yield session.api, self._headers(call, credentials)
        finally:
            session.in_use -= 1
            await session.settle()

    async def _session_for(self, credentials: Credentials) -> _Session:
        session = self._session
        if session is None or not session.fits(credentials):
            self._session = self._connect(credentials)
            if session is not None:
                session.retired = True
                await session.settle()
            return self._session
        return session

    def _connect(self, credentials: Credentials) -> _Session:
        target = self._login.target
        configuration = Configuration(
            host=target.server,
            ca_cert_data=credentials.ca.decode(errors="replace") or None,
            verify_ssl=not target.insecure,
            tls_server_name=target.tls_server_name or None,
            proxy=target.proxy or None,
            connection_pool_maxsize=self._connections,
        )
        # The standard library reads a client certificate only from files; they are deleted right after.
        with tempfile.TemporaryDirectory(prefix="bigfleet-kube-") as directory:
            if credentials.cert:
                for name, content in (("cert", credentials.cert), ("key", credentials.key)):
                    path = Path(directory, name)
                    path.touch(mode=0o600)
                    path.write_bytes(content)
                    setattr(configuration, f"{name}_file", str(path))
            try:
                api = ApiClient(configuration)
            except (OSError, ValueError) as error:
                raise LoginError(f"{target.server}: certificates do not load: {error}") from None
        pool = _Pool(self._connections, api.rest_client.ssl_context)
        api.rest_client.configuration.client_session_kwargs = {"connector": pool}
        return _Session(api, pool, credentials)

    def _headers(self, call: ApiCall, credentials: Credentials) -> dict[str, str]:
        headers = {
            "Accept": "application/json",
            "Content-Type": call.content_type,
            "User-Agent": f"bigfleet/{__version__}",
        }
        if credentials.token:
            headers["Authorization"] = f"Bearer {credentials.token}"
        if self._login.target.impersonate:
            headers["Impersonate-User"] = self._login.target.impersonate
        return headers

    def _url(self, call: ApiCall) -> str:
        query = f"?{urlencode(call.query)}" if call.query else ""
        return f"{self._login.target.server}{call.path}{query}"


class _HttpLines:
    """Splits a streaming response into lines."""

    def __init__(self, call: ApiCall, response: aiohttp.ClientResponse, answer: ApiResponse) -> None:
        self._call, self._response, self.answer = call, response, answer
        self._lines: list[bytes] = []  # last first
        self._rest = bytearray()
        self._ended = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while not self._lines:
            if self._ended:
                raise StopAsyncIteration
            try:
                piece = await self._response.content.readany()
            except _BROKEN as error:
                raise _unreachable(self._call, error) from error
            self._take(piece)
        return self._lines.pop()

    def _take(self, piece: bytes) -> None:
        if not piece:
            # A line without its end is half an event; the reader resumes after the last whole one.
            self._ended = True
            return
        begin = len(self._rest)
        self._rest += piece
        end = self._rest.rfind(b"\n", begin)
        if end >= 0:
            self._lines = bytes(self._rest[:end]).split(b"\n")[::-1]
            del self._rest[: end + 1]
        if len(self._rest) > MAX_LINE:
            raise UnreachableError(self._call.title, f"a line of more than {MAX_LINE} bytes")


async def run_plugin(plugin: Mapping[str, Any]) -> Mapping[str, Any]:
    """Run a credential plugin of a kubeconfig and return the status that it printed."""
    try:
        status: Mapping[str, Any] = await _RUN_PLUGIN(_PLUGIN_SECTION("exec", dict(plugin))).run()
    except (ConfigException, OSError) as error:
        raise LoginError(f"{plugin.get('command')}: {error}") from None
    return status


def _abort(response: aiohttp.ClientResponse) -> None:
    """Abort a streaming response: a TLS shutdown would wait for a silent server and outlive the pool."""
    if response.connection is not None and response.connection.transport is not None:
        response.connection.transport.abort()
    response.close()


def _decoded(content: bytes) -> object:
    try:
        return json.loads(content)
    except ValueError:
        return content.decode(errors="replace")


def _unreachable(call: ApiCall, error: BaseException) -> UnreachableError:
    if isinstance(error, TimeoutError):
        return UnreachableError(call.title, "no answer in time")
    return UnreachableError(call.title, str(error) or type(error).__name__)
