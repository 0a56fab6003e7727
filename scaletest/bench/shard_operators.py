"""Operators of the shard's benchmark as a process of its own: a connection each, demand repeated, some of it changing.

    python -m scaletest.bench.shard_operators SHARD_PORT CLUSTERS MACHINES

prints `connected`; then obeys lines on standard input, answering each with one JSON object:
    steady SECONDS CHANGES_PER_SECOND   repeat every cluster's demand every 10 s, and change some
    burst MACHINES                      ask for so many machines more, spread over the clusters, and wait for them
    deaf CLUSTER                        stop reading on one session
Latencies are from sending a roll-up to the frame that reports the resulting action.
"""

import asyncio
import json
import sys
import time
from typing import Any

import grpc
import grpc.aio

from bigfleet.v1alpha1 import capacity_pb2, shard_pb2
from bigfleet.wire.rollups import Rollup, rollup_to_proto
from scaletest.bench.shard_fleet import FleetSize, cluster_name, demand

_CONFIGURING, _CONFIGURED = 4, 5
_REPEAT_S = 10.0
_AT_ONCE = 64
_OPTIONS = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)]
_PATH = "/bigfleet.v1alpha1.Shard/Session"


class Operator:
    """One cluster."""

    def __init__(self, number: int, size: FleetSize, board: "Board") -> None:
        self.number, self._size, self._board = number, size, board
        self.extra = 0
        self.rollup = self._encoded()
        self.asked_s = 0.0
        self.waiting = 0
        self.deaf = False

    def _encoded(self) -> bytes:
        rollup = rollup_to_proto(
            Rollup(cluster_name(self.number), 1, demand(self.number, self._size, self.extra))
        )
        return shard_pb2.OperatorMessage(rollup=rollup).SerializeToString()

    async def connect(self, port: int) -> None:
        self._channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}", _OPTIONS)
        call: Any = self._channel.stream_stream(_PATH)(wait_for_ready=True)
        self._call = call
        hello = shard_pb2.OperatorMessage(hello=shard_pb2.Hello(cluster_id=cluster_name(self.number)))
        await self._call.write(hello.SerializeToString())
        await self._call.read()
        self._reader = asyncio.get_running_loop().create_task(self._read())
        await self.send()

    async def send(self) -> None:
        await self._call.write(self.rollup)
        self._board.sent += 1

    async def ask(self, more: int) -> None:
        """Ask for some machines more, or fewer, of the first type."""
        self.extra += more
        self.rollup = self._encoded()
        self.asked_s, self.waiting = time.monotonic(), max(0, more)
        await self.send()

    async def _read(self) -> None:
        while not self.deaf:
            data = await self._call.read()
            if not isinstance(data, bytes):
                self._board.ended += 1
                return
            await self._take(shard_pb2.ShardMessage.FromString(data))

    async def _take(self, message: shard_pb2.ShardMessage) -> None:
        board = self._board
        match message.WhichOneof("payload"):
            case "ack":
                board.acks += 1
            case "bootstrap_request":
                answer = shard_pb2.BootstrapBlobResponse(
                    request_id=message.bootstrap_request.request_id, user_data=b"join"
                )
                await self._call.write(
                    shard_pb2.OperatorMessage(bootstrap_response=answer).SerializeToString()
                )
            case "node_state_update":
                state = message.node_state_update.state
                if state == _CONFIGURING and self.asked_s:
                    board.to_action.append(time.monotonic() - self.asked_s)
                    self.asked_s = 0.0
                elif state == _CONFIGURED and self.waiting:
                    self.waiting -= 1
                    board.configured.append(time.monotonic())
            case "available_capacity":
                board.hints += 1


class Board:
    """What all of them saw."""

    def __init__(self) -> None:
        self.sent = self.acks = self.hints = self.ended = 0
        self.to_action: list[float] = []
        self.configured: list[float] = []

    def summary(self) -> dict[str, object]:
        lags = sorted(self.to_action)
        return {
            "rollups": self.sent,
            "acks": self.acks,
            "hints": self.hints,
            "sessions_ended": self.ended,
            "rollup_to_action_s": {
                "count": len(lags),
                "p50": round(lags[len(lags) // 2], 3) if lags else None,
                "p99": round(lags[int(len(lags) * 0.99)], 3) if lags else None,
            },
        }

    def clear(self) -> None:
        self.sent = self.acks = self.hints = 0
        self.to_action, self.configured = [], []


async def _steady(operators: list[Operator], seconds: float, changes: float) -> None:
    """Repeat demand in step, so that every operator sends once in ten seconds; change a few on the way."""
    began, turn, due = time.monotonic(), 0, 0.0
    pause_s = _REPEAT_S / len(operators)
    while (now := time.monotonic() - began) < seconds:
        behind = int(now / pause_s) - turn
        for _ in range(max(0, behind)):
            await operators[turn % len(operators)].send()
            turn += 1
        if changes and now >= due:
            chosen = operators[(turn * 7919) % len(operators)]
            await chosen.ask(1 if chosen.extra == 0 else -1)
            due += 1 / changes
        await asyncio.sleep(min(pause_s * 5, 0.02))


async def _burst(operators: list[Operator], machines: int, board: Board) -> dict[str, object]:
    began = time.monotonic()
    each = machines // len(operators) + 1
    chosen = [each_one for each_one in operators if not each_one.deaf][: -(-machines // each)]
    for operator in chosen:
        await operator.ask(each)
    wanted = each * len(chosen)
    while len(board.configured) < wanted and time.monotonic() - began < 600:  # noqa: ASYNC110  600 s is the bound
        await asyncio.sleep(0.1)
    took_s = (board.configured[-1] if board.configured else time.monotonic()) - began
    return {"wanted": wanted, "configured": len(board.configured), "seconds": round(took_s, 2)}


async def _run(port: int, size: FleetSize) -> None:
    board = Board()
    operators = [Operator(number, size, board) for number in range(size.clusters)]
    began = time.monotonic()
    for start in range(0, len(operators), _AT_ONCE):
        await asyncio.gather(*(each.connect(port) for each in operators[start : start + _AT_ONCE]))
    print(
        json.dumps({"connected": len(operators), "seconds": round(time.monotonic() - began, 2)}), flush=True
    )
    while line := await asyncio.to_thread(sys.stdin.readline):
        verb, *rest = line.split()
        board.clear()
        result: dict[str, object] = {}
        if verb == "steady":
            await _steady(operators, float(rest[0]), float(rest[1]))
        elif verb == "burst":
            result = await _burst(operators, int(rest[0]), board)
        elif verb == "deaf":
            operators[int(rest[0])].deaf = True
        print(json.dumps({"verb": verb, **result, **board.summary()}), flush=True)


if __name__ == "__main__":
    shard_port, clusters, machines = map(int, sys.argv[1:])
    assert capacity_pb2.DESCRIPTOR.package == "bigfleet.v1alpha1"
    asyncio.run(_run(shard_port, FleetSize(clusters, machines)))
