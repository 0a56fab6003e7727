"""Secrets with certificates are created under their name, which a role can allow one by one (`packaging#certificate-job`)."""

import asyncio
from contextlib import AbstractAsyncContextManager

import pytest

from bigfleet.aio.clock import SystemClock
from bigfleet.kube.client import KubeClient
from bigfleet.kube.errors import ConflictError
from bigfleet.kube.limiter import RateLimiter
from bigfleet.kube.tls_secrets import TlsSecret, TlsSecrets
from bigfleet.kube.transport import APPLY_PATCH, ApiCall, ApiResponse, WatchLines

pytestmark = pytest.mark.rule("packaging#certificate-job")
PATH = "/api/v1/namespaces/fleet/secrets/shard-tls"


class Recorded:
    """A transport that notes calls and gives one answer to all of them."""

    def __init__(self, answer: ApiResponse) -> None:
        self.answer = answer
        self.calls: list[ApiCall] = []

    async def send(self, call: ApiCall) -> ApiResponse:
        self.calls.append(call)
        return self.answer

    def open(self, call: ApiCall) -> AbstractAsyncContextManager[WatchLines]:
        raise NotImplementedError

    async def renew_login(self) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        """Nothing is open."""


def secrets(transport: Recorded) -> TlsSecrets:
    return TlsSecrets(KubeClient(transport, RateLimiter(SystemClock())), "fleet")


def test_a_secret_is_written_by_apply_and_never_by_post() -> None:
    async def story() -> None:
        transport = Recorded(ApiResponse(200, {}))
        written = secrets(transport)
        await written.write("shard-tls", TlsSecret(b"cert", b"key", b"ca"))
        await written.write_once("shard-tls", TlsSecret(b"cert", b"key", b"ca"), "run-1")
        again, once = transport.calls
        for call in (again, once):
            assert (call.method, call.path, call.content_type) == ("PATCH", PATH, APPLY_PATCH)
            assert call.body is not None
            assert call.body["type"] == "kubernetes.io/tls"
            assert call.body["data"] == {"tls.crt": "Y2VydA==", "tls.key": "a2V5", "ca.crt": "Y2E="}
            assert call.body["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "bigfleet-certs"}
        assert again.query == {"fieldManager": "bigfleet-certs", "force": "true"}
        assert once.query == {"fieldManager": "bigfleet-certs-run-1", "force": "false"}

    asyncio.run(story())


def test_the_second_of_two_first_writers_is_refused() -> None:
    async def story() -> None:
        refused = secrets(Recorded(ApiResponse(409, {"code": 409, "reason": "Conflict"})))
        with pytest.raises(ConflictError):
            await refused.write_once("shard-tls", TlsSecret(b"cert", b"key"), "run-1")

    asyncio.run(story())


@pytest.mark.parametrize(
    ("labels", "data", "found"),
    [
        (
            {"app.kubernetes.io/managed-by": "bigfleet-certs"},
            {"tls.crt": "Y2VydA==", "tls.key": "a2V5", "ca.crt": "Y2E="},
            TlsSecret(b"cert", b"key", b"ca", is_ours=True),
        ),
        (
            {"app.kubernetes.io/managed-by": "Helm"},
            {"tls.crt": "Y2VydA=="},
            TlsSecret(b"cert", b"", b"", is_ours=False),
        ),
        ({}, {"tls.crt": "not base64"}, TlsSecret(b"", b"", b"", is_ours=False)),
        ({}, {"tls.crt": "\u00a0aGk="}, TlsSecret(b"", b"", b"", is_ours=False)),
    ],
)
def test_what_is_held_is_read_with_its_maker(
    labels: dict[str, str], data: dict[str, str], found: TlsSecret
) -> None:
    async def story() -> None:
        body = {"metadata": {"name": "shard-tls", "labels": labels}, "data": data}
        assert await secrets(Recorded(ApiResponse(200, body))).find("shard-tls") == found
        missing = ApiResponse(404, {"code": 404, "reason": "NotFound"})
        assert await secrets(Recorded(missing)).find("shard-tls") is None

    asyncio.run(story())
