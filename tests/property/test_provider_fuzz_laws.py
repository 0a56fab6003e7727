"""Invalid requests: random bytes, huge fields, odd numbers (`providers#argument-limits`)."""

import pytest

from bigfleet.aio.net import Code, RpcError
from bigfleet.aio.rng import RandomStream, SeededRng
from bigfleet.aio.service import UnaryMethod
from bigfleet.provider.contract import CALLS, SERVICE
from bigfleet.provider.kit.core.fence import Fence
from bigfleet.provider.kit.core.values import DescribedMachine
from bigfleet.providerkit.scripted import ScriptedBackend
from bigfleet.providerkit.virtual import VirtualProvider
from bigfleet.testing.loop import run_virtual
from bigfleet.transport.status import GENERIC_DETAIL
from bigfleet.v1alpha1 import provider_pb2 as pb
from tests.support.builders import shape

REQUESTS = {
    "Create": pb.CreateRequest,
    "Configure": pb.ConfigureRequest,
    "Drain": pb.DrainRequest,
    "Delete": pb.DeleteRequest,
    "Get": pb.MachineRef,
    "List": pb.ListFilter,
}
ALLOWED = {Code.OK, Code.INVALID_ARGUMENT, Code.NOT_FOUND, Code.FAILED_PRECONDITION, Code.INTERNAL}
NUMBERS = (0, 1, -1, 7, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63))
TEXTS = ("", "m-0", "m-1", "ghost", "\0", "é" * 700, "x" * 100_000, "../../etc/passwd", "a\nb")


def odd_request(call: str, stream: RandomStream) -> bytes:
    """Return a request with fields at the edges of what the format can carry, or bytes that are none at all."""
    if stream.random() < 0.15:
        return stream.randbytes(stream.randrange(200))
    request = REQUESTS[call]()
    for field in request.DESCRIPTOR.fields:
        if stream.random() < 0.3:
            continue
        if field.message_type is not None:
            for _ in range(stream.randrange(4)):
                getattr(request, field.name)[stream.choice(TEXTS)] = stream.choice(TEXTS)
        elif field.name == "states":
            request.states.extend(stream.choice([0, 1, 3, 8, 9, 42]) for _ in range(stream.randrange(4)))
        elif field.type == field.TYPE_BYTES:
            setattr(request, field.name, stream.randbytes(stream.randrange(5000)))
        elif field.type == field.TYPE_STRING:
            setattr(request, field.name, stream.choice(TEXTS))
        else:
            small = field.type == field.TYPE_INT32
            setattr(request, field.name, stream.choice([n for n in NUMBERS if not small or abs(n) < 2**31]))
    data: bytes = request.SerializeToString()
    if stream.random() < 0.1:  # fields that this version does not know
        data += bytes([0xFA, 0x3E, 3]) + b"new"
    return data


async def bombard(seed: int, count: int) -> None:
    stream = SeededRng(seed).stream("fuzz")
    backend = ScriptedBackend([DescribedMachine(f"m-{n}", shape(), "h" if n else "") for n in range(2)])
    async with VirtualProvider(backend) as provider:
        provider.kit.state.fence = Fence(unknown_kept=50, further_kept=50)
        channel = provider.another_channel()
        seen: list[tuple[str, Code, str]] = []
        for _ in range(count):
            call = stream.choice(CALLS)
            method: UnaryMethod[bytes, bytes] = UnaryMethod(f"/{SERVICE}/{call}", bytes)
            try:
                await channel.unary(method, odd_request(call, stream), timeout_s=30)
                seen.append((call, Code.OK, ""))
            except RpcError as refused:
                seen.append((call, refused.code, refused.detail))
        assert {code for _, code, _ in seen} >= {Code.OK, Code.INVALID_ARGUMENT, Code.NOT_FOUND}
        assert [one for one in seen if one[1] not in ALLOWED or one[2] == GENERIC_DETAIL] == []
        # Nothing of it stays: no machine was created, the marks are bounded, no call waits.
        assert sorted(provider.kit.state.table.ids()) == ["m-0", "m-1"]
        assert len(provider.kit.state.fence) <= 2 + 50 + 50
        await provider.settled("m-0", "m-1")
        await provider.pass_time(1)
        assert provider.kit.tasks == 0
        assert len((await provider.client.list()).machines) == 2


@pytest.mark.rule("providers#argument-limits")
@pytest.mark.parametrize("seed", [1, 2])
def test_odd_requests_are_refused_by_name_and_leave_nothing_behind(seed: int) -> None:
    run_virtual(bombard(seed, 400))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_many_odd_requests_are_refused_by_name_and_leave_nothing_behind(seed: int) -> None:
    run_virtual(bombard(100 + seed, 5_000))
