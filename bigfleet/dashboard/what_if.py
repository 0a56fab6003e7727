"""Runs each what-if in its own process, with the production engine.

Why: trying a change on half a million machines takes seconds and gigabytes, which must not slow down a shard's
cycle or other readers. One run at a time, with limits on time and memory, at a low priority.
Must never: change anything, keep a process after its time is up, or run two at once.
Rules: `dashboard#what-if`.
"""

import asyncio
import json
import sys
from collections.abc import Mapping
from typing import Any, Final

from bigfleet.aio.clock import Clock, timeout
from bigfleet.dashboard.sources import SourceError, SourceProblem

LIMIT_S: Final = 30.0
MEMORY_BYTES: Final = 2 * 1024**3
_WAITING: Final = 8


class WhatIf:
    """Runs one question at a time; a few may wait."""

    def __init__(self, clock: Clock, *, limit_s: float = LIMIT_S, memory_bytes: int = MEMORY_BYTES) -> None:
        self._clock, self._limit_s, self._memory = clock, limit_s, memory_bytes
        self._one = asyncio.Lock()
        self._asked = 0

    async def ask(self, packed: bytes, question: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the answer to a question about a zlib-compressed snapshot; raises `SourceError`."""
        if self._asked >= _WAITING:
            raise SourceError(SourceProblem.BUSY, "too many questions wait already; ask again in a moment")
        self._asked += 1
        try:
            async with self._one:
                return await self._run(packed, question)
        finally:
            self._asked -= 1

    async def _run(self, packed: bytes, question: Mapping[str, Any]) -> Mapping[str, Any]:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "bigfleet.dashboard.what_if_process",
            str(self._memory),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            async with timeout(self._clock, self._limit_s):
                output, _ = await process.communicate(json.dumps(question).encode() + b"\n" + packed)
        except TimeoutError as error:
            raise SourceError(
                SourceProblem.FAILED, f"the question took longer than {self._limit_s:g} s and was given up"
            ) from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if not output:
            raise SourceError(
                SourceProblem.FAILED,
                f"the question needed more than {self._memory // 1024**2} MiB and was given up",
            )
        reply = json.loads(output)
        if "error" in reply:
            raise SourceError(SourceProblem.REFUSED, reply["error"])
        answer: Mapping[str, Any] = reply["answer"]
        return answer
