"""Registered addresses that the dashboard uses (`dashboard#registered-addresses`, ADR-0246)."""

import pytest

from bigfleet.dashboard.shard_addresses import ShardAddresses
from bigfleet.model.errors import InvalidFieldError


@pytest.mark.rule("dashboard#registered-addresses")
@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("shard-0.fleet.svc:7780", None),
        ("shard_0:7780", None),
        ("192.0.2.7:7780", None),
        ("[2001:db8::7]:7780", None),
        (":7780", "address"),
        ("shard-0:0", "address"),
        ("http://169.254.169.254/latest:80", "address"),
        ("169.254.169.254/latest/meta-data?x=:80", "address"),
        ("evil.example#:7780", "address"),
        ("user@evil.example:7780", "address"),
        ("unix:/var/run/docker.sock", "address"),
        ("unix:7780", "address"),
        ("dns:///evil.example:7780", "address"),
        ("a b:7780", "address"),
        ("a\r\nX-Evil: 1:7780", "address"),
        ("\u202eevil:7780", "address"),
        ("a." * 5_000 + "!:1", "address"),
    ],
)
def test_only_host_and_port_are_an_address(address: str, reason: str | None) -> None:
    found = ShardAddresses().refusal(address)
    assert (found and found[0]) == reason
    assert found is None or len(found[1]) < 300
    assert found is None or (found[1].isascii() and found[1].isprintable())


@pytest.mark.rule("dashboard#registered-addresses")
@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("one.example", True),
        ("ONE.example.", True),
        ("two.example", False),
        ("shard-0.fleet.example", True),
        ("fleet.example", False),
        ("evilfleet.example", False),
        ("10.4.5.6", True),
        ("11.4.5.6", False),
        ("[2001:db8::1]", True),
        ("[2001:db9::1]", False),
    ],
)
def test_a_list_of_hosts_refuses_all_others(host: str, allowed: bool) -> None:
    addresses = ShardAddresses(["one.example", "*.Fleet.Example", "10.0.0.0/8", "2001:db8::/32"])
    found = addresses.refusal(f"{host}:7780")
    assert (found is None) is allowed
    assert found is None or found[0] == "not_allowed"


@pytest.mark.parametrize("pattern", ["", "*", "*.*.example", "http://x", "10.0.0.1/8", "a b"])
def test_a_pattern_that_is_none_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidFieldError, match="a host name, a domain"):
        ShardAddresses([pattern])
