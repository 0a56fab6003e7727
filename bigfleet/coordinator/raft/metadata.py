"""Term, vote and commit index: the file beside the journal.

Why: a replica that forgets its vote can vote twice in one term, and two leaders follow.
Must never: be read as a default when it is unreadable; the library did that, and forgot votes.
Rules: coordinator 17.2 and 17.9. JSON {"b": {...}, "h": SHA-256 of "b" in canonical JSON}.
"""

import json
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from typing import Any

from bigfleet.aio.disk import Disk, atomic_write
from bigfleet.coordinator.log import DamagedDirectoryError

VOTE_SPENT = (
    "spent"  # a vote for nobody: it keeps a promoted learner from voting in the term it was promoted in
)


@dataclass(frozen=True, slots=True)
class RaftMetadata:
    """What Raft must remember besides its log; a lower commit index than the real one is harmless."""

    term: int = 0
    vote: str | None = None
    commit: int = 1


def canonical(value: object) -> bytes:
    """Return the one JSON text of a value: sorted keys, no spaces, UTF-8."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def sealed(body: object) -> bytes:
    """Return a small document with the checksum of its body."""
    return canonical({"b": body, "h": sha256(canonical(body)).hexdigest()})


def unsealed(path: str, data: bytes) -> dict[str, Any]:
    """Return the body of a sealed document; raises DamagedDirectoryError."""
    try:
        document = json.loads(data)
        body, checksum = document["b"], document["h"]
        if not isinstance(body, dict) or sha256(canonical(body)).hexdigest() != checksum:
            raise DamagedDirectoryError(path, "its checksum does not fit its content")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedDirectoryError(path, "it is not the JSON that was written") from error
    return body


def read_metadata(disk: Disk, path: str) -> RaftMetadata:
    """Return what the file holds; raises DamagedDirectoryError, and DiskError if it cannot be read."""
    body = unsealed(path, disk.read(path))
    if set(body) != {field.name for field in fields(RaftMetadata)}:
        raise DamagedDirectoryError(path, f"found the fields {sorted(body)}, expected term, vote and commit")
    term, vote, commit = body["term"], body["vote"], body["commit"]
    is_whole = type(term) is int and type(commit) is int and term >= 0 and commit >= 0
    if not is_whole or not isinstance(vote, str | None):
        raise DamagedDirectoryError(path, f"found {body}, which no replica writes")
    return RaftMetadata(term, vote, commit)


def write_metadata(disk: Disk, path: str, metadata: RaftMetadata) -> None:
    """Replace the file, durably."""
    atomic_write(disk, path, sealed(asdict(metadata)))
