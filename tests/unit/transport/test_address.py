import errno

import pytest

from bigfleet.model.errors import InvalidFieldError
from bigfleet.transport.address import ListenAddress, join, listen_problem, parse_http_listen, parse_listen


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:7780", "127.0.0.1", 7780),
        (":7780", "", 7780),
        ("0.0.0.0:0", "0.0.0.0", 0),  # noqa: S104 - read, not listened on
        ("[::1]:65535", "::1", 65535),
        ("shard-0.shard.svc:7780", "shard-0.shard.svc", 7780),
    ],
)
def test_an_address_is_read_and_spelled_the_same(text: str, host: str, port: int) -> None:
    address = parse_listen(text)
    assert address == ListenAddress(host, port)
    assert str(address) == text


@pytest.mark.parametrize(
    "text",
    ["", "0", "7780", "host", "host:", ":-1", ":65536", ":1e3", ":٣", "::1:80", "fe80::1", "h:80 ", "[::1]"],
)
def test_what_is_no_address_is_refused_with_the_field_and_the_forms(text: str) -> None:
    with pytest.raises(InvalidFieldError) as caught:
        parse_listen(text, "--listen")
    assert caught.value.field == "--listen"
    assert "all interfaces" in str(caught.value)


def test_zero_disables_an_http_listener_and_nothing_else_does() -> None:
    assert parse_http_listen("0") is None
    assert parse_http_listen(":8780") == ListenAddress("", 8780)
    with pytest.raises(InvalidFieldError, match="no listener"):
        parse_http_listen("00")


def test_an_ipv6_host_gets_brackets() -> None:
    assert (join("::1", 80), join("a", 80), join("", 80)) == ("[::1]:80", "a:80", ":80")


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (errno.EADDRINUSE, "in use"),
        (errno.EADDRNOTAVAIL, "no interface"),
        (errno.EACCES, "not permitted"),
        (errno.EMFILE, "many"),
    ],
)
def test_a_refused_address_is_explained(number: int, text: str) -> None:
    assert text in listen_problem(OSError(number, "Too many open files"))


@pytest.mark.rule("packaging#warnings-at-start")
@pytest.mark.parametrize(
    ("text", "loopback"),
    [
        ("127.0.0.1:1", True),
        ("127.9.8.7:1", True),
        ("[::1]:1", True),
        ("localhost:1", True),
        (":1", False),
        ("0.0.0.0:1", False),
        ("[::]:1", False),
        ("10.0.0.1:1", False),
        ("shard-0:1", False),
    ],
)
def test_only_addresses_of_this_host_are_loopback(text: str, loopback: bool) -> None:
    assert parse_listen(text).is_loopback == loopback
