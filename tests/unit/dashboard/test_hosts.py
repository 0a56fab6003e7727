"""Hosts that a request may name (`dashboard#allowed-hosts`, ADR-0245)."""

import pytest

from bigfleet.dashboard.hosts import AllowedHosts, host_of


@pytest.mark.parametrize(
    ("authority", "host"),
    [
        ("Fleet.Example.:443", "fleet.example"),
        ("fleet.example", "fleet.example"),
        ("fleet.example:", "fleet.example"),
        ("127.0.0.1:8760", "127.0.0.1"),
        ("[::1]:8760", "::1"),
        ("::1", "::1"),
        ("[0:0:0:0:0:0:0:1]", "::1"),
        ("[::ffff:10.0.0.1]:1", "10.0.0.1"),
        ("", None),
        (":8760", None),
        ("[::1", None),
        ("[fleet.example]", None),
        ("fleet.example:99999", None),
        ("fleet.example:80:80", None),
        ("user@fleet.example", None),
        ("fleet.example/path", None),
        ("fleet example", None),
        ("fl\u00e9et.example", None),
        ("localhost\x00.evil.example", None),
        ("localhost\n", None),
    ],
)
def test_a_host_has_one_spelling_and_what_is_no_host_has_none(authority: str, host: str | None) -> None:
    assert host_of(authority) == host


@pytest.mark.rule("dashboard#allowed-hosts")
@pytest.mark.parametrize(
    ("authority", "allowed"),
    [
        ("localhost", True),
        ("LOCALHOST.:1", True),
        ("127.3.2.1:5", True),
        ("[::1]", True),
        ("[::ffff:127.0.0.1]", True),
        ("inside.example:8760", True),
        ("fleet.example:443", True),
        ("192.0.2.9", True),
        ("[2001:db8::7]:1", False),
        ("10.1.1.1:8760", False),
        ("evil.example", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("127.1", False),
        ("2130706433", False),
        ("0.0.0.1", False),
    ],
)
def test_loopback_the_address_of_the_connection_the_listener_and_the_flag_are_allowed(
    authority: str, allowed: bool
) -> None:
    hosts = AllowedHosts("inside.example", ["Fleet.Example"])
    assert hosts.allows(authority, "192.0.2.9") is allowed


def test_a_connection_over_ipv6_allows_its_own_address() -> None:
    hosts = AllowedHosts("")
    assert hosts.allows("[2001:db8:0::7]:8760", "2001:db8::7")
    assert hosts.allows("[fe80::7]", "fe80::7%eth0")
    assert hosts.allows("10.0.0.5", "::ffff:10.0.0.5")
    assert not hosts.allows("[2001:db8::8]", "2001:db8::7")
