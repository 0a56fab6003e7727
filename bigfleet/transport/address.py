"""Reads addresses to listen on, and addresses that a peer gives for others to dial.

Why: every program takes the first in the same spelling, which charts and scripts of the original pass. The second come from
outside, and a client library takes more for an address than a host and a port: a socket in the file system, a URL.
Must never: listen on more than loopback unless the address says so, or hand on an address of a peer that is not host and port.
Rules: `packaging#settings-sources`: `:7780` is all interfaces, `0` disables an HTTP listener, 127.0.0.1 is the default
of every flag.
"""

import errno
import re
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Final

from bigfleet.model.errors import InvalidFieldError

PLAINTEXT = "no TLS: every identity check is skipped, and other hosts can reach this port"
"""What every program warns of that listens beyond loopback without TLS."""
_FORMS = "host:port, [ipv6]:port or :port (all interfaces), port 0 to 65535"
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*\.?")
_SCHEMES: Final = frozenset({"dns", "ipv4", "ipv6", "unix", "unix-abstract", "vsock", "xds"})
"""Words that gRPC does not take for a host when a colon follows."""
_LONGEST_NAME: Final = 253
"""A name of the DNS has no more characters."""
_PEER: Final = "host:port or [ipv6]:port, the host a DNS name or an IP address, the port 1 to 65535"


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Where to listen; an empty host is all interfaces, port 0 any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return join(self.host, self.port)

    @property
    def is_loopback(self) -> bool:
        """Whether only this host can reach it; a name other than localhost may lead anywhere."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False


def is_exposed(*ports: ListenAddress, secured: bool) -> bool:
    """Whether other hosts can reach one of these ports without TLS."""
    return not secured and not all(port.is_loopback for port in ports)


def parse_listen(text: str, field: str = "listen address") -> ListenAddress:
    """Read an address to listen on."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        colon = ""  # an IPv6 address without brackets: where its port begins is a guess
    if not colon or not port.isascii() or not port.isdigit() or len(port) > 5 or int(port) > 65535:
        raise InvalidFieldError(field, text, _FORMS)
    return ListenAddress(host, int(port))


def parse_peer(text: str, field: str) -> ListenAddress:
    """Read an address that a peer gives for others to dial."""
    try:
        address = parse_listen(text, field)
    except InvalidFieldError:
        raise InvalidFieldError(field, text[:_LONGEST_NAME], _PEER) from None
    if not address.port or not _is_host(address.host, bracketed=text.startswith("[")):
        raise InvalidFieldError(field, text[:_LONGEST_NAME], _PEER)
    return address


def check_advertised(text: str, field: str) -> None:
    """Refuse the address under which a process makes itself known unless it is empty, as for a peer, or as one listens."""
    if not text:
        return
    try:
        address = parse_listen(text, field)
    except InvalidFieldError:
        raise InvalidFieldError(field, text[:_LONGEST_NAME], _PEER) from None
    if address.host and not _is_host(address.host, bracketed=text.startswith("[")):
        raise InvalidFieldError(field, text[:_LONGEST_NAME], _PEER)


def _is_host(host: str, *, bracketed: bool) -> bool:
    if not bracketed:
        fits = len(host) <= _LONGEST_NAME and host.lower() not in _SCHEMES
        return fits and _NAME.fullmatch(host) is not None
    try:
        IPv6Address(host)
    except ValueError:
        return False
    return True


def parse_http_listen(text: str, field: str = "HTTP address") -> ListenAddress | None:
    """Read the address of an HTTP listener; `0` is None, no listener."""
    if text == "0":
        return None
    try:
        return parse_listen(text, field)
    except InvalidFieldError as error:
        raise InvalidFieldError(field, text, f"0 (no listener), {_FORMS}") from error


def join(host: str, port: int) -> str:
    """Return `host:port`, brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def listen_problem(error: OSError) -> str:
    """Say in a person's words why an address cannot be listened on."""
    match error.errno:
        case errno.EADDRINUSE:
            return "the port is in use by another process"
        case errno.EADDRNOTAVAIL:
            return "no interface of this host has that address"
        case errno.EACCES | errno.EPERM:
            return "not permitted"
    return error.strerror or str(error)
