"""The hostile tenant of the siege as a process of its own, with a good certificate.

    python -m scaletest.bench.siege_tenant TARGET CERTIFICATE KIND

makes the frames of its kind and prints `{"ready": N}`; then obeys lines on standard input, answering each with one JSON object:
    attack SECONDS   send as fast as the shard takes it, and connect again when thrown out
    leave            withdraw everything, and end the session
It answers requests for join data at once, since a machine that is bound for it is one that others do not get.
"""

import asyncio
import json
import sys
from collections import Counter
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import Final

from bigfleet.aio.net import BidiStream, RpcError
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.shard_session import SESSION
from bigfleet.transport.tls import TlsFiles, TlsStore
from bigfleet.v1alpha1 import shard_pb2 as pb
from scaletest.bench.siege_attacks import ATTACKS, EMPTY, WITHDRAWALS
from scaletest.bench.siege_fleet import TENANT
from tests.support.hostile_frames import hello

Stream = BidiStream[bytes, pb.ShardMessage]
_PATIENCE_S: Final = 60.0


class Tenant:
    """One cluster that means no good."""

    def __init__(self, target: str, files: TlsFiles, kind: str) -> None:
        self._channel = GrpcNet(TlsStore(files, lambda _problem: None)).dial(target)
        attack = ATTACKS[kind]
        self._first, self.frames = attack.first, attack.frames()
        self._acked = asyncio.Event()
        self._heard: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()

    async def attack(self, seconds: float) -> dict[str, object]:
        """Send the frames in turn for so long."""
        self._heard.clear()
        sent = bytes_sent = sessions = 0
        waiting = cycle(self.frames)
        stream: Stream | None = None
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while True:
                    frame = next(waiting)
                    try:
                        if stream is None:
                            sessions += 1
                            stream = self._opened(reads=not self._first)
                            if not self._first:
                                await stream.send(hello(TENANT))
                        await stream.send(frame)
                        sent, bytes_sent = sent + 1, bytes_sent + len(frame)
                        if self._first:
                            await self._ended(stream)
                            stream = None
                    except RpcError:
                        stream = None
        return {"frames": sent, "mb": bytes_sent >> 20, "streams": sessions, "heard": dict(self._heard)}

    async def leave(self) -> dict[str, object]:
        """Withdraw all demand, as often as it takes for the shard to believe it, and go."""
        left = WITHDRAWALS
        while left:
            stream = self._opened(reads=True)
            try:
                await stream.send(hello(TENANT))
                while left:
                    self._acked.clear()
                    await stream.send(EMPTY)
                    async with asyncio.timeout(_PATIENCE_S):
                        await self._acked.wait()
                    left -= 1
            except (RpcError, TimeoutError):
                await asyncio.sleep(0.5)
            stream.cancel()
        await self._channel.close()
        return {"left": True}

    def _opened(self, *, reads: bool) -> Stream:
        stream: Stream = self._channel.bidi(SESSION, wait_for_ready=True)
        if reads:
            task = asyncio.create_task(self._read(stream))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return stream

    async def _ended(self, stream: Stream) -> None:
        with suppress(RpcError):
            while await stream.receive() is not None:
                pass

    async def _read(self, stream: Stream) -> None:
        with suppress(RpcError):
            while (message := await stream.receive()) is not None:
                kind = message.WhichOneof("payload") or ""
                self._heard[kind] += 1
                if kind == "ack" and message.ack.echo.startswith("rollup"):
                    self._acked.set()
                elif kind == "bootstrap_request":
                    request = message.bootstrap_request
                    answer = pb.BootstrapBlobResponse(request_id=request.request_id, user_data=b"join")
                    await stream.send(pb.OperatorMessage(bootstrap_response=answer).SerializeToString())


async def _run(target: str, directory: Path, kind: str) -> None:
    files = TlsFiles(directory / "tls.crt", directory / "tls.key", directory / "ca.crt")
    tenant = Tenant(target, files, kind)
    print(json.dumps({"ready": len(tenant.frames)}), flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        verb, *rest = line.split()
        answer = await tenant.attack(float(rest[0])) if verb == "attack" else await tenant.leave()
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    asyncio.run(_run(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
