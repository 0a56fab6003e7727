"""Which names of this server a request may use: loopback, the address that it came to, and those of a flag.

Why: a page of another site can give its own name the address of this server (DNS rebinding); a browser then takes both for
one site, and lets that page read what the dashboard answers. Only the name in the request gives it away.
Must never: compare ports, since a forwarded port is another one, or allow a name because it resolves to this host.
Rules: `dashboard#allowed-hosts`; ADR-0245.
"""

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

_AUTHORITY: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::([0-9]{1,5})?)?")


def host_of(authority: str) -> str | None:
    """Return the host of a `host[:port]` in one spelling; None for what is no host."""
    if (address := _address(authority)) is not None:
        return str(address)
    found = _AUTHORITY.fullmatch(authority)
    if found is None or int(found[3] or 0) > 65535:
        return None
    if found[1]:
        inner = _address(found[1])
        return None if inner is None else str(inner)
    address = _address(found[2])
    return found[2].lower().removesuffix(".") if address is None else str(address)


class AllowedHosts:
    """The hosts that requests may name."""

    def __init__(self, listen: str = "", names: Iterable[str] = ()) -> None:
        found = (host_of(name) for name in (listen, *names) if name)
        self._names = {"localhost", *(name for name in found if name)}

    def allows(self, authority: str, came_to: str) -> bool:
        """Whether a request on a connection to this local address may name this host."""
        host = host_of(authority)
        if host is None:
            return False
        address = _address(host)
        if address is not None and (address.is_loopback or address == _address(came_to.partition("%")[0])):
            return True
        return host in self._names


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        found = ip_address(text)
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found
