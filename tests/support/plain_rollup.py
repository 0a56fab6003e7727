"""The roll-up of a set of CapacityRequests, added up from scratch in the plainest way; the twin of the kept one."""

from collections.abc import Iterable
from typing import Any

from bigfleet.model.machine import PODS
from bigfleet.model.quantity import parse_quantity
from bigfleet.model.quantity_text import canonical_text
from bigfleet.operator.core.contribution import Contribution, Contributions
from bigfleet.operator.core.rollup import NO_SURPLUS, Surplus
from bigfleet.v1alpha1 import shard_pb2
from bigfleet.wire.rollups import row_to_proto


def plain_rollup(
    cluster: str, built_ns: int, documents: Iterable[dict[str, Any]], surplus: Surplus = NO_SURPLUS
) -> bytes:
    """Return the frame that tells the demand of these requests, and a surplus on top of it."""
    rows: dict[Any, list[tuple[tuple[str, int, bool], ...]]] = {}
    for document in documents:
        # Each by itself, so that nothing is shared with another request or an earlier moment.
        found = Contributions().of(document["metadata"], document.get("spec"))
        if isinstance(found, Contribution):
            rows.setdefault((found.row.profile, found.row.group, found.row.max_units, False), []).append(
                found.amounts.entries
            )
    message = shard_pb2.OperatorMessage()
    message.rollup.cluster_id = cluster
    message.rollup.timestamp_unix_nanos = built_ns
    extras: dict[Any, list[tuple[Any, Any]]] = {}
    for key, extra in surplus.items():
        if not extra.is_zero:
            limit = 0 if key.unit.without(PODS).is_zero else key.max_units
            place = (key.profile, key.group, limit, key.profile.same_key is None)
            # Pods are for shards that know of them, and this one does not.
            extras.setdefault(place, []).append((extra.without(PODS), key.unit.without(PODS)))
    fragments = [place for place in extras if place[3]]
    ordered = sorted(
        [*rows, *fragments], key=lambda key: (-key[0].priority, not key[3], key[0].fingerprint, *key[1:])
    )
    for place in ordered:
        profile, group, limit, for_fragments = place
        requests = rows.get(place, [])
        total: dict[str, str] = {}
        unit: dict[str, str] = {}
        for name in sorted({name for entries in requests for name, _, _ in entries}):
            mine = [
                (nano, binary) for entries in requests for other, nano, binary in entries if other == name
            ]
            binary = all(binary for _, binary in mine)
            total[name] = canonical_text(sum(nano for nano, _ in mine), binary=binary)
            unit[name] = canonical_text(max(nano for nano, _ in mine), binary=binary)
        for extra, size in extras.get(place, ()):
            for name, nano in extra.items():
                family = name in total and _is_binary(requests, name)
                total[name] = canonical_text(parse_quantity(total.get(name, "0")) + nano, binary=family)
            for name, nano in size.items() if for_fragments else ():
                unit[name] = canonical_text(max(parse_quantity(unit.get(name, "0")), nano))
        message.rollup.needs.append(
            row_to_proto(profile, total, unit, group, max_units=limit, for_fragments=for_fragments)
        )
    return message.SerializeToString(deterministic=True)


def _is_binary(requests: list[tuple[tuple[str, int, bool], ...]], name: str) -> bool:
    return all(binary for entries in requests for other, _, binary in entries if other == name)
