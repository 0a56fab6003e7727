import inspect
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from bigfleet.aio.identity import ADMIN, READONLY, Identity, Role
from bigfleet.aio.net import Code, IdentityRefusedError, Metadata, Peer, RpcRefusedError
from bigfleet.testing.loop import run_virtual
from bigfleet.transport.gates import allow, allow_exact

PLAINTEXT = Peer("x")


@dataclass
class FakeCall:
    peer: Peer
    method: str = "/s/m"
    metadata: Metadata = ()

    def time_remaining_s(self) -> float | None:
        return None

    def set_trailing(self, metadata: Metadata) -> None:
        self.metadata = metadata

    def cancelled(self) -> bool:
        return False


def secured(identity: Identity | None) -> FakeCall:
    return FakeCall(Peer("x", True, identity, "" if identity else "two URIs"))


class Service:
    def __init__(self) -> None:
        self.closed = False

    @allow(ADMIN, READONLY)
    async def read(self, request: str, call: FakeCall) -> str:
        return request

    @allow_exact(Role.SHARD, lambda request: request)
    async def report(self, request: str, call: FakeCall) -> str:
        return request

    @allow(ADMIN)
    async def stream(self, request: str, call: FakeCall) -> AsyncIterator[str]:
        try:
            yield request
            yield "more"
        finally:
            self.closed = True


@pytest.mark.parametrize("identity", [ADMIN, READONLY])
def test_those_named_pass(identity: Identity) -> None:
    assert run_virtual(Service().read("q", secured(identity))) == "q"


@pytest.mark.parametrize("identity", [Identity.shard("a"), Identity.cluster("admin"), None])
def test_all_others_are_refused_naming_both_sides(identity: Identity | None) -> None:
    with pytest.raises(IdentityRefusedError) as caught:
        run_virtual(Service().read("q", secured(identity)))
    assert caught.value.code is Code.PERMISSION_DENIED
    assert "bigfleet://admin or bigfleet://readonly" in caught.value.detail
    assert (str(identity) if identity else "two URIs") in caught.value.detail


@pytest.mark.parametrize("identity", [ADMIN, Identity.shard("b"), Identity.cluster("a"), None])
def test_an_exact_gate_is_not_hierarchical(identity: Identity | None) -> None:
    with pytest.raises(IdentityRefusedError, match="bigfleet://shard/a"):
        run_virtual(Service().report("a", secured(identity)))


def test_an_exact_gate_lets_its_holder_in() -> None:
    assert run_virtual(Service().report("a", secured(Identity.shard("a")))) == "a"


def test_an_id_that_no_certificate_can_carry_is_refused_as_identity() -> None:
    with pytest.raises(IdentityRefusedError):
        run_virtual(Service().report("a/b", secured(Identity.shard("a"))))


def test_an_empty_id_is_an_invalid_argument() -> None:
    with pytest.raises(RpcRefusedError) as caught:
        run_virtual(Service().report("", secured(ADMIN)))
    assert caught.value.code is Code.INVALID_ARGUMENT


def test_plaintext_passes_every_gate_untouched() -> None:
    async def run() -> None:
        service, call = Service(), FakeCall(PLAINTEXT)
        assert await service.read("q", call) == "q"
        assert await service.report("", call) == ""
        assert [item async for item in service.stream("q", call)] == ["q", "more"]

    run_virtual(run())


def test_a_gated_generator_stays_one_and_closes_what_it_wraps() -> None:
    async def run() -> None:
        service = Service()
        answers = service.stream("q", secured(ADMIN))
        assert await anext(answers) == "q"
        await answers.aclose()  # type: ignore[attr-defined]  # the annotation promises less than a generator
        assert service.closed

    assert inspect.isasyncgenfunction(Service.stream)
    run_virtual(run())


def test_a_refused_stream_yields_nothing() -> None:
    async def run() -> None:
        await anext(Service().stream("q", secured(READONLY)))

    with pytest.raises(IdentityRefusedError):
        run_virtual(run())
