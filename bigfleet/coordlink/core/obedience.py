"""What carries out the instructions of a coordinator: the shard, seen through a narrow interface.

Why: a shard that shares its provider changes what it owns; any other only remembers its domains. The client handles the
instructions of both alike, and neither shard knows the client.
Rules: `coordinator#shard-client`, `coordinator#no-accepted-no-ops`, `coordinator#ownership-view`.
"""

from collections.abc import Sequence
from typing import Protocol

from bigfleet.coordlink.core.domains import AssignedDomains
from bigfleet.model.errors import BigFleetError
from bigfleet.model.instruction import (
    PAYLOAD_KINDS,
    AssignDomain,
    Outcome,
    Payload,
    Ruling,
    UnassignDomain,
)
from bigfleet.model.shard_report import OwnershipView


class Obedience(Protocol):
    """Carries out instructions."""

    def obey(self, payloads: Sequence[Payload]) -> Sequence[Ruling]:
        """Carry out the instructions of one answer in order; what was accepted is durable when this returns."""

    def new_term(self) -> None:
        """A new leader speaks for the first time."""


class SharedProvider(Protocol):
    """The ownership of a shard that shares its provider (`OwnershipKeeper`)."""

    @property
    def revision(self) -> int:
        """Rises with every change of the view."""

    @property
    def settled(self) -> bool:
        """Whether the shard knows all it owns."""

    def view(self) -> OwnershipView:
        """What the coordinator is told."""

    async def available(self) -> None:
        """Wait until instructions can be carried out; they must follow at once."""

    def obey(self, payloads: Sequence[Payload]) -> Sequence[Ruling]:
        """Carry out instructions."""

    def synchronised(self) -> None:
        """The coordinator had nothing to add to the view."""


class UnsharedProvider:
    """Obedience of a shard that owns all machines of its provider: it remembers its domains and moves nothing."""

    def __init__(self, domains: AssignedDomains) -> None:
        self._domains = domains

    def new_term(self) -> None:
        """Forget all domains."""
        # An unassignment of the last leader may be lost; the new leader sends all domains again.
        self._domains.clear()

    def obey(self, payloads: Sequence[Payload]) -> Sequence[Ruling]:
        """Assign and unassign; refuse what would move a machine."""
        return [self._tried(payload) for payload in payloads]

    def _tried(self, payload: Payload) -> Ruling:
        try:
            return self._obey_one(payload)
        except BigFleetError as error:
            return Ruling(Outcome.FAILED, str(error))

    def _obey_one(self, payload: Payload) -> Ruling:
        kind = PAYLOAD_KINDS[type(payload)]
        match payload:
            case AssignDomain(domain) | UnassignDomain(domain) if not domain.key or not domain.value:
                return Ruling(
                    Outcome.REJECTED_INVALID,
                    f"{kind}: the domain {domain} lacks its key or its value, both are required",
                )
            case AssignDomain(domain):
                self._domains.assign(domain)
            case UnassignDomain(domain):
                self._domains.unassign(domain)
            case _:
                return Ruling(
                    Outcome.REJECTED_INVALID,
                    f"{kind}: not-partitioned: this shard shares its provider with no other, so that no machine can "
                    "change hands",
                )
        return Ruling(Outcome.ACCEPTED)


class SharingShard:
    """Obedience of a shard that shares its provider; what it owns outlives every term."""

    def __init__(self, shared: SharedProvider) -> None:
        self._shared = shared

    def new_term(self) -> None:
        """Its view tells the new leader what it holds."""

    def obey(self, payloads: Sequence[Payload]) -> Sequence[Ruling]:
        """Let the shard carry them out."""
        return self._shared.obey(payloads)
