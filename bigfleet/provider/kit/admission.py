"""Which callers a provider admits: under TLS only shards, each in its own name and with a fencing token.

Why: one authority signs the certificates of all parts, so "any certificate" includes those of tenants and of people who only
read. A provider serves shards and no other part.
Must never: require anything of a plaintext caller by default (the original's suite calls that way), or look at another argument
before the identity.
Rules: `providers#shard-san`, `providers#empty-token`, `wire#identity`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from structlog.typing import FilteringBoundLogger

from bigfleet.aio.identity import Role
from bigfleet.aio.net import Peer
from bigfleet.transport.gates import require_role


@dataclass(frozen=True, slots=True)
class CallerRules:
    """Two requirements; None is the default, which is on for connections with TLS and off for others."""

    require_shard_san: bool | None = None
    require_fencing: bool | None = None

    def admit(self, peer: Peer, shard_id: str = "") -> None:
        """Raise `IdentityRefusedError` unless the peer may call, in the name of a shard if the call names one."""
        if self.require_shard_san is not False:
            require_role(peer, Role.SHARD, shard_id)

    def speaks_for(self, peer: Peer, shard_id: str) -> bool:
        """Return whether a peer may announce the epoch of a shard."""
        if self.require_shard_san is False or not peer.secured:
            return True
        who = peer.identity
        return who is not None and (who.role, who.id) == (Role.SHARD, shard_id)

    def needs_token(self, peer: Peer) -> bool:
        """Return whether a mutating call of this peer needs a fencing token."""
        return peer.secured if self.require_fencing is None else self.require_fencing

    def warnings(self) -> Iterator[str]:
        """Yield what is possible under TLS because a requirement was turned off."""
        if self.require_shard_san is False:
            yield (
                "--require-shard-san=false: every certificate of the authority, also one of a tenant's operator or of a "
                "reader, may list machines, and create, bind, drain and delete them in the name of any shard"
            )
        if self.require_fencing is False:
            yield (
                "--require-fencing=false: calls without a fencing token are accepted, so an outdated process of a shard "
                "can undo what its successor did"
            )


def warn_of_opt_outs(log: FilteringBoundLogger, admission: CallerRules) -> None:
    """Log what a provider with TLS admits because a requirement was turned off."""
    for why in admission.warnings():
        log.warning("requirement_off", why=why)
