"""Which addresses that the coordinator lists for shards may be dialled and scraped.

Why: a shard names its own address when it registers. Without a check, that name could be a URL or a socket of this host, and
the dashboard would read it every ten seconds with its own certificate.
Must never: judge an address that a flag of the dashboard gave; the operator answers for those.
Rules: `dashboard#registered-addresses`; ADR-0246.
"""

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from bigfleet.model.errors import InvalidFieldError
from bigfleet.transport.address import parse_peer

PATTERNS = "a host name, a domain such as *.example.org, or a network such as 10.0.0.0/8"


class ShardAddresses:
    """Judges addresses by their form and, where the operator gave a list, by their host."""

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self._names = set[str]()
        self._domains = list[str]()
        self._networks = list[IPv4Network | IPv6Network]()
        for pattern in allowed:
            self._add(pattern)
        self._any = not (self._names or self._domains or self._networks)

    def refusal(self, address: str) -> tuple[str, str] | None:
        """Return why an address is not used, as a reason for the metric and a sentence; None when it is."""
        try:
            host = parse_peer(address, "address").host
        except InvalidFieldError as error:
            found = ascii(str(error.found)[:80])
            return "address", f"its registered address {found} is not used; allowed is {error.allowed}"
        if self._any or self._allows(host.lower().removesuffix(".")):
            return None
        return (
            "not_allowed",
            f"its registered address {address} is not used; --allowed-shard-host does not allow it",
        )

    def _add(self, pattern: str) -> None:
        try:
            self._networks.append(ip_network(pattern))
        except ValueError:
            name = pattern.lower().removesuffix(".")
            rest = name.removeprefix("*.")
            try:
                parse_peer(f"{rest}:1", "host")
            except InvalidFieldError:
                raise InvalidFieldError("host", pattern, PATTERNS) from None
            if rest == name:
                self._names.add(name)
            else:
                self._domains.append(f".{rest}")

    def _allows(self, host: str) -> bool:
        try:
            address = ip_address(host.partition("%")[0])
        except ValueError:
            return host in self._names or any(host.endswith(domain) for domain in self._domains)
        return any(address in network for network in self._networks)
