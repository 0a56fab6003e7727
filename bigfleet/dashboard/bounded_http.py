"""Reads metrics over HTTP from processes that may not be what they say: no redirect, bounded in bytes and time.

Why: a shard's host is what its registration says, so the answer at its port for metrics may come from anyone. A redirect would
make the dashboard ask any URL from inside the network, an endless or packed answer would fill its memory.
Must never: follow a redirect, unpack an answer, keep a cookie, or read on beyond the bound.
Rules: `dashboard#scraper`, `dashboard#prometheus`; ADR-0246.
"""

from collections.abc import Callable, Mapping
from typing import Final

import aiohttp

from bigfleet.aio.clock import Clock, timeout

_PLAIN: Final = {"Accept-Encoding": "identity"}


class RefusedAnswerError(OSError):
    """An answer that is not read; `reason` is the metric's word for it."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


def make_session() -> aiohttp.ClientSession:
    """Return a session that unpacks nothing and keeps no cookies."""
    return aiohttp.ClientSession(auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar(), headers=_PLAIN)


class BoundedHttp:
    """Reads answers of at most so many bytes; `refused` is called with the reason for each that is not read."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        clock: Clock,
        *,
        max_bytes: int,
        refused: Callable[[str], object],
    ) -> None:
        self._session, self._clock, self._max = session, clock, max_bytes
        self._refused = refused

    async def get(self, url: str, timeout_s: float) -> bytes:
        """Return the body at an address; raises `OSError` and `TimeoutError`, also for every status but 200."""
        status, body = await self._ask("GET", url, timeout_s)
        if status != 200:
            raise OSError(f"{url} answered {status}")
        return body

    async def post(self, url: str, form: Mapping[str, str], timeout_s: float) -> bytes:
        """Return the body that answers a form, whatever its status; raises `OSError` and `TimeoutError`."""
        return (await self._ask("POST", url, timeout_s, dict(form)))[1]

    async def _ask(
        self, method: str, url: str, timeout_s: float, form: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        try:
            async with (
                timeout(self._clock, timeout_s),
                self._session.request(method, url, data=form, allow_redirects=False) as answer,
            ):
                return answer.status, await self._read(url, answer)
        except RefusedAnswerError as error:
            self._refused(error.reason)
            raise
        except aiohttp.ClientError as error:
            raise OSError(str(error)) from error

    async def _read(self, url: str, answer: aiohttp.ClientResponse) -> bytes:
        if 300 <= answer.status < 400:
            raise RefusedAnswerError(
                "redirect", f"{url} answered {answer.status}; redirects are not followed"
            )
        if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise RefusedAnswerError("encoded", f"{url} answered in an encoding that was not asked for")
        body = bytearray()
        async for piece in answer.content.iter_any():
            body += piece
            if len(body) > self._max:
                raise RefusedAnswerError("too_large", f"{url} answered more than {self._max} bytes")
        return bytes(body)
