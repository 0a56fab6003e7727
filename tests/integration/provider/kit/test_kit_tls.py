"""Mutual TLS of a provider (`providers#transport`, `providers#tls`)."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bigfleet.aio.identity import ADMIN, Identity
from bigfleet.aio.net import Code, RpcError, RpcServer
from bigfleet.model.errors import InvalidFieldError
from bigfleet.provider.kit.core.fence import FencingToken
from bigfleet.provider.kit.kit import ProviderKit
from bigfleet.provider.kit.raw_client import RawProviderClient
from bigfleet.provider.kit.store import Volatile
from bigfleet.providerkit.scripted import ScriptedBackend
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.transport.tls import PartialTlsError, TlsFiles, TlsStore
from tests.support.certificates import Authority, replace_pair
from tests.support.fake_provider import code_of

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]

ServeKit = Callable[..., Awaitable[tuple[ProviderKit, RpcServer]]]
DialKit = Callable[..., RawProviderClient]


def secured(files: TlsFiles) -> GrpcNet:
    # A handshake may find the new key beside the old certificate; it logs that and keeps the pair it had.
    return GrpcNet(TlsStore(files, lambda _problem: None))


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "pki", datetime.now(UTC))


@pytest.mark.rule("providers#tls")
async def test_a_partial_set_of_files_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(PartialTlsError, match="--tls-key, --tls-ca"):
        TlsFiles.from_flags("tls.crt", "", "")
    kit = ProviderKit(ScriptedBackend(), store=Volatile(), name="acme", require_shard_san=True)
    with pytest.raises(InvalidFieldError, match="require_shard_san"):
        await kit.serve("127.0.0.1:0")


@pytest.mark.rule("providers#tls")
async def test_a_peer_of_another_authority_is_refused(
    serve: ServeKit, dial: DialKit, authority: Authority, tmp_path: Path
) -> None:
    _, server = await serve(net=secured(authority.issue(Identity.shard("provider"))))
    stranger = Authority(tmp_path / "other", datetime.now(UTC)).issue(Identity.shard("shard-0"))
    for caller in (dial(server, secured(stranger)), dial(server)):
        with pytest.raises(RpcError) as refused:
            await caller.list()
        assert refused.value.code is Code.UNAVAILABLE
    friend = dial(server, secured(authority.issue(Identity.shard("shard-0"))))
    assert len((await friend.list()).machines) == 4


@pytest.mark.rule("providers#tls", "providers#shard-san")
async def test_a_shard_moves_machines_in_its_own_name_only(
    serve: ServeKit, dial: DialKit, authority: Authority
) -> None:
    _, server = await serve(net=secured(authority.issue(Identity.shard("provider"))))
    shard = dial(server, secured(authority.issue(Identity.shard("shard-0"))))
    admin = dial(server, secured(authority.issue(ADMIN, name="alice")))
    await shard.create("m-0", FencingToken("shard-0", 1, 1))
    codes = [
        await code_of(shard.create("m-1", FencingToken("shard-1", 1, 1))),
        await code_of(admin.create("m-1", FencingToken("shard-0", 1, 2))),
        await code_of(admin.list()),
        await code_of(admin.get("m-0")),
    ]
    assert codes == [Code.PERMISSION_DENIED] * 4
    assert len((await shard.list()).machines) == 4


@pytest.mark.rule("providers#shard-san")
async def test_with_the_requirement_off_any_certificate_of_the_authority_will_do(
    serve: ServeKit, dial: DialKit, authority: Authority
) -> None:
    _, server = await serve(net=secured(authority.issue(Identity.shard("provider"))), require_shard_san=False)
    await dial(server, secured(authority.issue(ADMIN, name="alice"))).create(
        "m-0", FencingToken("shard-0", 1, 1)
    )


@pytest.mark.rule("providers#tls")
async def test_a_leaf_swapped_under_load_drops_no_call(
    serve: ServeKit, dial: DialKit, authority: Authority
) -> None:
    served = authority.issue(Identity.shard("provider"))
    _, server = await serve(slots=40, net=secured(served))
    caller = secured(authority.issue(Identity.shard("shard-0")))
    client = dial(server, caller)
    swapped = asyncio.Event()
    after = 0

    async def call(number: int) -> None:
        nonlocal after
        await client.create(f"m-{number}", FencingToken("shard-0", 1, number))
        # New connections all the while, so that handshakes meet the old leaf and the new one.
        assert len((await dial(server, caller).list(at_most=1)).machines) == 1
        after += swapped.is_set()

    async def load(numbers: range) -> None:
        for number in numbers:
            await call(number)
            if number == 5:
                replace_pair(served, authority.issue(Identity.shard("provider"), name="renewed"))
                swapped.set()

    await asyncio.gather(load(range(20)), load(range(20, 40)))
    assert after > 0
