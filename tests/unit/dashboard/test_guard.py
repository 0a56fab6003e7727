"""Admission of readers by token, by certificate, by a proxy in a trusted network (`dashboard#security`, ADR-0162)."""

import asyncio
import base64
from dataclasses import replace
from ipaddress import ip_network
from typing import Any
from unittest.mock import Mock

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from bigfleet.dashboard.guard import HEADERS, Admission, guard, protect
from bigfleet.dashboard.hosts import AllowedHosts

HOSTS = AllowedHosts(names=["inside", "fleet.example"])
PROXIED = Admission(proxies=(ip_network("10.0.0.0/8"),))
PATH = "/fleet/api/v1/x/status"


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


def ask(
    admission: Admission,
    path: str = PATH,
    *,
    peer: str = "192.0.2.7",
    certificate: Any = None,  # the guard asks only whether there is one
    method: str = "GET",
    **headers: str,
) -> web.StreamResponse:
    """Return the response to a request, complete with its headers; the handler behind the guard answers 200."""
    admission = replace(admission, hosts=HOSTS)

    async def handler(_request: web.Request) -> web.StreamResponse:
        return web.Response()

    connection = {
        "peername": (peer, 1234),
        "sockname": ("10.9.9.9", 8760),
        "peercert": certificate,
    }
    transport = Mock()
    transport.get_extra_info = lambda name, default=None: connection.get(name, default)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = make_mocked_request(
        method, path, headers={"Host": "inside:8760"} | named, transport=transport, sslcontext=certificate
    )

    async def guarded() -> web.StreamResponse:
        response = await guard(admission, "/fleet/", counted.append)(request, handler)
        protect(request, response, admission)
        return response

    counted = list[str]()
    response = asyncio.run(guarded())
    assert len(counted) == (response.status != 200)
    return response


@pytest.mark.rule("dashboard#who-may-read")
@pytest.mark.parametrize(
    ("admission", "given", "status"),
    [
        (Admission(), {}, 200),
        (Admission(token="right"), {}, 401),
        (Admission(token="right"), {"Authorization": "Bearer right"}, 200),
        (Admission(token="right"), {"Authorization": "bearer  right "}, 200),
        (Admission(token="right"), {"Authorization": basic("anybody:right")}, 200),
        (Admission(token="right"), {"Authorization": basic("right:wrong")}, 401),
        (Admission(token="right"), {"Authorization": "Basic %%%"}, 401),
        (Admission(token="right"), {"Authorization": "Basic \u00e9"}, 401),
        (Admission(token="right"), {"Authorization": "Bearer r\u00efght"}, 401),
        (Admission(token="r\u00efght"), {"Authorization": "Bearer r\u00efght"}, 200),
        (Admission(token="right"), {"Authorization": "Bearer rightly"}, 401),
        (Admission(token="right"), {"Cookie": "bigfleet-token=right"}, 200),
        (Admission(token="right"), {"X_Forwarded_User": "eve"}, 401),
        (PROXIED, {"peer": "10.1.2.3", "X_Forwarded_User": "ada"}, 200),
        (PROXIED, {"peer": "::ffff:10.1.2.3", "X_Forwarded_User": "ada"}, 200),
        (PROXIED, {"peer": "10.1.2.3"}, 401),
        (PROXIED, {"peer": "10.1.2.3", "X_Forwarded_User": " "}, 401),
        (PROXIED, {"peer": "192.0.2.7", "X_Forwarded_User": "eve", "X_Forwarded_For": "10.1.2.3"}, 401),
        (Admission(certificates=True), {}, 401),
        (Admission(certificates=True), {"certificate": {"subject": ()}}, 200),
        (Admission(token="right", certificates=True), {"Authorization": "Bearer right"}, 200),
    ],
)
def test_any_way_in_lets_in_and_nothing_else_does(
    admission: Admission, given: dict[str, str], status: int
) -> None:
    response = ask(admission, **given)
    assert response.status == status
    assert HEADERS.items() <= dict(response.headers).items()
    assert ask(admission, "/fleet/healthz", peer="192.0.2.7").status == 200


def test_a_browser_is_asked_for_the_token_as_a_password() -> None:
    challenge = ask(Admission(token="right")).headers["WWW-Authenticate"]
    assert "Bearer" in challenge
    assert "Basic" in challenge
    assert "WWW-Authenticate" not in ask(PROXIED).headers


@pytest.mark.rule("dashboard#read-only")
@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"Origin": "http://inside:8760"}, 200),
        ({"Origin": "https://fleet.example"}, 403),
        ({"Origin": "https://fleet.example", "X_Forwarded_Host": "fleet.example"}, 403),
        ({"peer": "10.1.2.3", "Origin": "https://fleet.example", "X_Forwarded_Host": "fleet.example"}, 200),
        ({"peer": "10.1.2.3", "Origin": "https://evil.example", "X_Forwarded_Host": "fleet.example"}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
    ],
)
def test_the_one_question_comes_from_the_dashboards_own_pages_also_behind_a_proxy(
    given: dict[str, str], status: int
) -> None:
    admission = Admission(token="right", proxies=PROXIED.proxies)
    found = ask(admission, "/fleet/api/v1/x/whatif", method="POST", Authorization="Bearer right", **given)
    assert found.status == status


@pytest.mark.rule("dashboard#read-only")
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_every_other_method_is_refused_for_every_reader(method: str) -> None:
    assert ask(Admission(), method=method).status == 405


@pytest.mark.rule("dashboard#allowed-hosts")
@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"Host": "fleet.example"}, 200),
        ({"Host": "evil.example"}, 421),
        ({"X_Forwarded_Host": "evil.example"}, 200),
        ({"peer": "10.1.2.3", "X_Forwarded_Host": "fleet.example"}, 200),
        ({"peer": "10.1.2.3", "X_Forwarded_Host": "fleet.example, inside"}, 200),
        ({"peer": "10.1.2.3", "X_Forwarded_Host": "evil.example"}, 421),
        ({"peer": "10.1.2.3", "X_Forwarded_Host": "evil.example, fleet.example"}, 421),
    ],
)
def test_the_host_that_the_reader_named_decides_also_behind_a_trusted_proxy(
    given: dict[str, str], status: int
) -> None:
    assert ask(PROXIED, "/fleet/healthz", **given).status == status


@pytest.mark.rule("dashboard#transport-security")
@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({}, False),
        ({"certificate": object()}, True),
        ({"certificate": object(), "Host": "localhost:8760"}, False),
        ({"X_Forwarded_Proto": "https"}, False),
        ({"peer": "10.1.2.3", "X_Forwarded_Proto": "https"}, True),
        ({"peer": "10.1.2.3", "X_Forwarded_Proto": "http"}, False),
    ],
)
def test_browsers_are_told_to_keep_to_https_where_that_is_what_they_use(
    given: dict[str, Any], sent: bool
) -> None:
    response = ask(PROXIED, "/fleet/healthz", **given)
    assert ("Strict-Transport-Security" in response.headers) == sent
