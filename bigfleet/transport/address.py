"""Reads addresses to listen on.

Why: every program takes them in the same spelling, which charts and scripts of the original pass.
Must never: listen on more than loopback unless the address says so.
Rules: `packaging#settings-sources`: `:7780` is all interfaces, `0` disables an HTTP listener, 127.0.0.1 is the default
of every flag.
"""

import errno
from dataclasses import dataclass
from ipaddress import ip_address

from bigfleet.model.errors import InvalidFieldError

PLAINTEXT = "no TLS: every identity check is skipped, and other hosts can reach this port"
"""What every program warns of that listens beyond loopback without TLS."""
_FORMS = "host:port, [ipv6]:port or :port (all interfaces), port 0 to 65535"


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
