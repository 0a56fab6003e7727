"""The honest operators of the siege as a process of their own: they change and repeat their demand, and time each acknowledgement.

    python -m scaletest.bench.siege_operators TARGET CERTIFICATES

prints `{"connected": N}`; then for each line `run SECONDS` on standard input one JSON object with what those seconds were like. Each
operator connects again when its session ends, as ours does, and goes on sending between the lines. Ends with standard input.
"""

import asyncio
import json
import sys
import time
from itertools import cycle
from pathlib import Path
from typing import Final

from bigfleet.aio.net import BidiStream, RpcError
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.shard_session import SESSION
from bigfleet.transport.tls import TlsFiles, TlsStore
from bigfleet.v1alpha1 import shard_pb2 as pb
from bigfleet.wire.session_frames import HELLO_ECHO, ROLLUP_ECHO
from scaletest.bench.siege_fleet import HONEST, honest_name, honest_rollup
from tests.support.hostile_frames import hello

EVERY_S: Final = 1.0
GROWING: Final = 5
"""Operators that in turn ask for one machine more and give it back."""
GROWS_EVERY: Final = 8
_CONFIGURING: Final = 4

Stream = BidiStream[bytes, pb.ShardMessage]


class Operator:
    """One honest cluster."""

    def __init__(self, number: int, target: str, files: TlsFiles) -> None:
        self._number, self._cluster = number, honest_name(number)
        self._channel = GrpcNet(TlsStore(files, lambda _problem: None)).dial(target)
        usual = [honest_rollup(number), honest_rollup(number, less=True)]
        more = [honest_rollup(number, more=True), honest_rollup(number, less=True, more=True)]
        # Each change is repeated once, as unchanged demand is resent; those that grow do so for several rounds.
        rounds = [frame for frame in usual for _ in range(2)]
        if number < GROWING:
            rounds = [
                *rounds * (GROWS_EVERY // 4),
                *[frame for frame in more for _ in range(2)] * (GROWS_EVERY // 4),
            ]
        self._rounds, self._more = cycle(rounds), set(more)
        self.connected = asyncio.Event()
        self.waits_s: list[float] = []
        self.reactions_s: list[float] = []
        self.sent_s: float | None = None
        self.grown_s: float | None = None
        self.lost = 0
        self._acked = asyncio.Event()

    async def run(self) -> None:
        """Be an operator until cancelled."""
        while True:
            stream = self._channel.bidi(SESSION, wait_for_ready=True)
            reader = asyncio.create_task(self._read(stream))
            try:
                await stream.send(hello(self._cluster))
                await self.connected.wait()
                await self._work(stream)
            except RpcError:
                self.lost += 1
                await asyncio.sleep(0.2)
            finally:
                reader.cancel()
                stream.cancel()

    async def _work(self, stream: Stream) -> None:
        grown = False
        for frame in self._rounds:
            began_s = self.sent_s = time.monotonic()
            if (frame in self._more) is not grown:
                grown = not grown
                self.grown_s = began_s if grown else None
            self._acked.clear()
            await stream.send(frame)
            await self._acked.wait()
            await asyncio.sleep(max(0.0, EVERY_S - (time.monotonic() - began_s)))

    async def _read(self, stream: Stream) -> None:
        try:
            while (message := await stream.receive()) is not None:
                await self._take(message, stream)
        except RpcError:
            pass
        stream.cancel()  # the sender learns of the end by its next frame
        self._acked.set()

    async def _take(self, message: pb.ShardMessage, stream: Stream) -> None:
        match message.WhichOneof("payload"):
            case "ack" if message.ack.echo == HELLO_ECHO:
                self.connected.set()
            case "ack" if message.ack.echo == ROLLUP_ECHO and self.sent_s is not None:
                self.waits_s.append(time.monotonic() - self.sent_s)
                self.sent_s = None
                self._acked.set()
            case "bootstrap_request":
                answer = pb.BootstrapBlobResponse(
                    request_id=message.bootstrap_request.request_id, user_data=b"join"
                )
                await stream.send(pb.OperatorMessage(bootstrap_response=answer).SerializeToString())
            case "node_state_update" if message.node_state_update.state == _CONFIGURING and self.grown_s:
                self.reactions_s.append(time.monotonic() - self.grown_s)
                self.grown_s = None


def _taken(operators: list[Operator]) -> dict[str, object]:
    """What was seen since the last time; a roll-up that is still not acknowledged has waited for as long as it has."""
    now_s = time.monotonic()
    waits = sorted(wait for each in operators for wait in each.waits_s)
    open_s = [now_s - each.sent_s for each in operators if each.sent_s is not None]
    waits = sorted(waits + [wait for wait in open_s if wait > 1.0])
    reactions = sorted(wait for each in operators for wait in each.reactions_s)
    found = {
        "acks": len(waits),
        "ack_s": _quantiles(waits),
        "machines_asked": len(reactions),
        "asked_to_configuring_s": _quantiles(reactions),
        "sessions_lost": sum(each.lost for each in operators),
    }
    for each in operators:
        each.waits_s, each.reactions_s, each.lost = [], [], 0
    return found


def _quantiles(values: list[float]) -> dict[str, float]:
    shares = (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
    return {
        name: round(values[min(len(values) - 1, int(len(values) * share))], 3)
        for name, share in shares
        if values
    }


async def _run(target: str, certificates: Path) -> None:
    operators = []
    for number in range(HONEST):
        directory = certificates / honest_name(number)
        files = TlsFiles(directory / "tls.crt", directory / "tls.key", directory / "ca.crt")
        operators.append(Operator(number, target, files))
    tasks = [asyncio.create_task(each.run()) for each in operators]
    async with asyncio.timeout(60):
        await asyncio.gather(*(each.connected.wait() for each in operators))
    print(json.dumps({"connected": len(operators)}), flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        _taken(operators)
        await asyncio.sleep(float(line.split()[1]))
        print(json.dumps(_taken(operators)), flush=True)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


if __name__ == "__main__":
    asyncio.run(_run(sys.argv[1], Path(sys.argv[2])))
