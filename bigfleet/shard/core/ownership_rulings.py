"""What instructions change in the ownership of a shard that shares its provider.

Why: the coordinator decides who owns a domain; the shard refuses what cannot be meant for it, and says why.
Must never: touch a machine. Letting a domain go drains nothing; what the shard holds there is let go by `surplus`.
Rules: `coordinator#partition-mode`, `coordinator#leaving-domain`, `coordinator#no-accepted-no-ops`.
"""

from bigfleet.model.instruction import AssignDomain, Domain, Outcome, Payload, Ruling, UnassignDomain
from bigfleet.model.machine import CLUSTER_REQUIRED, MachineState
from bigfleet.model.ownership import Claim, Ownership

ACCEPTED = Ruling(Outcome.ACCEPTED)

_LET_GO_IN = frozenset({MachineState.IDLE, MachineState.SPECULATIVE, MachineState.FAILED})
"""States in which nothing is under way, and nothing runs for a cluster."""


def is_bound(state: MachineState) -> bool:
    """Whether a machine in this state belongs to a cluster."""
    return state in CLUSTER_REQUIRED


def rule_on_domain(draft: Ownership, payload: Payload) -> Ruling | None:
    """Change a draft as a domain instruction says, and return the ruling; None for another kind."""
    match payload:
        case AssignDomain(domain):
            return _assign(draft, domain)
        case UnassignDomain(domain):
            return _unassign(draft, domain)
        case _:
            return None


def _assign(draft: Ownership, domain: Domain) -> Ruling:
    refused = _refusal(draft, domain)
    if refused is not None:
        return refused
    draft.domains.add(domain.value)
    draft.leaving.discard(domain.value)
    return ACCEPTED


def _unassign(draft: Ownership, domain: Domain) -> Ruling:
    refused = _refusal(draft, domain)
    if refused is not None:
        return refused
    if domain.value in draft.domains:
        draft.domains.discard(domain.value)
        draft.leaving.add(domain.value)
    return ACCEPTED


def _refusal(draft: Ownership, domain: Domain) -> Ruling | None:
    if domain.key != draft.key:
        return Ruling(
            Outcome.REJECTED_INVALID,
            f"topology_key: found {domain.key!r}, allowed is {draft.key}, the partition key of this shard",
        )
    if not domain.value:
        return Ruling(
            Outcome.REJECTED_INVALID, "topology_value: found nothing, allowed is a text that is not empty"
        )
    return None


def lets_go(ownership: Ownership, machine_id: str, value: str | None, state: MachineState) -> bool:
    """Whether the shard forgets a machine it knows: free, and no longer its own. Bound ones stay until they are free."""
    if state not in _LET_GO_IN:
        return False
    return ownership.claim(machine_id, value, bound=False) is not Claim.OWN


def domains_left(draft: Ownership, held: set[str]) -> bool:
    """Bring the leaving domains of a draft up to date; return whether that changed anything.

    `held` are the values of all machines the shard still knows that it did not adopt. A domain that it still has machines
    in is shown, assigned or not, so that no other shard gets it meanwhile.
    """
    leaving = {value for value in held if value not in draft.domains}
    if leaving == draft.leaving:
        return False
    draft.leaving = leaving
    return True
