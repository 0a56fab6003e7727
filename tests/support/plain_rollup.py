"""The roll-up of a set of CapacityRequests, added up from scratch in the plainest way; the twin of the kept one."""

from collections.abc import Iterable
from typing import Any

from bigfleet.model.quantity_text import canonical_text
from bigfleet.operator.core.contribution import Contribution, Contributions
from bigfleet.v1alpha1 import shard_pb2
from bigfleet.wire.rollups import row_to_proto


def plain_rollup(cluster: str, built_ns: int, documents: Iterable[dict[str, Any]]) -> bytes:
    """Return the frame that tells the demand of these requests."""
    rows: dict[Any, list[tuple[tuple[str, int, bool], ...]]] = {}
    for document in documents:
        # Each by itself, so that nothing is shared with another request or an earlier moment.
        found = Contributions().of(document["metadata"], document.get("spec"))
        if isinstance(found, Contribution):
            rows.setdefault((found.row.profile, found.row.group), []).append(found.amounts.entries)
    message = shard_pb2.OperatorMessage()
    message.rollup.cluster_id = cluster
    message.rollup.timestamp_unix_nanos = built_ns
    ordered = sorted(rows, key=lambda key: (-key[0].priority, key[0].fingerprint, key[1]))
    for profile, group in ordered:
        requests = rows[profile, group]
        total, unit = {}, {}
        for name in sorted({name for entries in requests for name, _, _ in entries}):
            mine = [
                (nano, binary) for entries in requests for other, nano, binary in entries if other == name
            ]
            binary = all(binary for _, binary in mine)
            total[name] = canonical_text(sum(nano for nano, _ in mine), binary=binary)
            unit[name] = canonical_text(max(nano for nano, _ in mine), binary=binary)
        message.rollup.needs.append(row_to_proto(profile, total, unit, group))
    return message.SerializeToString(deterministic=True)
