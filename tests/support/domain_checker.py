"""Which answers to domain assignments one copy of the coordinator's table allows.

Why: an assignment answers differently depending on who holds the domain, so it is a compare-and-set, and a listing is a read of all
domains at once: enough to see lost writes, doubled writes and stale reads.
Must never: take a call of unknown outcome for one that did not happen.
Rules: `coordinator#commands`, `coordinator#write-outcomes`, `coordinator#calls`, `coordinator#linearizable-reads`.
"""

from collections.abc import Sequence

from tests.support.coordinator.domain_history import RecordedCall
from tests.support.linearizability import Event, Verdict, check

FREE = ""


def step(state: str, call: RecordedCall, known: bool) -> tuple[str, ...]:
    """The model of one domain: FREE or the shard that holds it."""
    match call.kind:
        case "list":
            return (state,) if call.owner == state else ()
        case "unassign":
            return (FREE,)
        case "assign" if not known:
            return (call.shard,) if state == FREE else (state,)
        case "assign" if call.owner:
            return (state,) if state == call.owner else ()
        case "assign":
            return (call.shard,) if state in (FREE, call.shard) else ()
        case kind:
            raise ValueError(f"kind: found {kind!r}, allowed is assign, unassign or list")


def check_history(calls: Sequence[RecordedCall]) -> dict[str, Verdict[RecordedCall]]:
    """Check each domain by itself; a listing is a read of each of them. Returns the verdicts by domain."""
    domains = sorted({call.domain for call in calls if call.domain})
    verdicts: dict[str, Verdict[RecordedCall]] = {}
    for domain in domains:
        events = [_event(call, domain) for call in calls if call.kind == "list" or call.domain == domain]
        verdicts[domain] = check([event for event in events if event is not None], FREE, step)
    return verdicts


def _event(call: RecordedCall, domain: str) -> Event[RecordedCall] | None:
    if call.kind != "list":
        return Event(call.began, call.ended, call)
    if call.ended is None:
        return None  # a read that failed saw nothing
    owner = dict(call.rows).get(domain, FREE)
    return Event(call.began, call.ended, RecordedCall("list", call.began, call.ended, domain, owner=owner))
