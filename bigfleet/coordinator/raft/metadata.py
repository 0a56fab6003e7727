"""The metadata file next to the journal: term, vote and commit index.

Why: a replica that forgets its vote can vote twice in one term, which gives two leaders.
Must never: fall back to a default if it is unreadable, as the library did.
Rules: `coordinator#durability`, `coordinator#raft-library`. JSON {"b": {...}, "h": SHA-256 of "b" in canonical JSON}.
"""

import json
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from typing import Any

from bigfleet.aio.disk import Disk, atomic_write
from bigfleet.coordinator.log import DamagedDirectoryError

# A vote for no replica: a promoted learner does not vote in the term of its promotion.
VOTE_SPENT = "spent"


@dataclass(frozen=True, slots=True)
class RaftMetadata:
    """What Raft must keep besides its log; a commit index below the real one is harmless."""

    term: int = 0
    vote: str | None = None
    commit: int = 1


def canonical(value: object) -> bytes:
    """Return the canonical JSON of a value: sorted keys, no spaces, UTF-8."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def sealed(body: object) -> bytes:
    """Return a document with the checksum of its body."""
    return canonical({"b": body, "h": sha256(canonical(body)).hexdigest()})


def unsealed(path: str, data: bytes) -> dict[str, Any]:
    """Return the body of a sealed document; raises DamagedDirectoryError."""
    try:
        document = json.loads(data)
        body, checksum = document["b"], document["h"]
        if not isinstance(body, dict) or sha256(canonical(body)).hexdigest() != checksum:
            raise DamagedDirectoryError(path, "its checksum does not match its content")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedDirectoryError(path, "it is not a JSON document of a replica") from error
    return body


def read_metadata(disk: Disk, path: str) -> RaftMetadata:
    """Read the file; raises DamagedDirectoryError, or DiskError if it cannot be read."""
    body = unsealed(path, disk.read(path))
    if set(body) != {field.name for field in fields(RaftMetadata)}:
        raise DamagedDirectoryError(path, f"found the fields {sorted(body)}, expected term, vote and commit")
    term, vote, commit = body["term"], body["vote"], body["commit"]
    is_whole = type(term) is int and type(commit) is int and term >= 0 and commit >= 0
    if not is_whole or not isinstance(vote, str | None):
        raise DamagedDirectoryError(path, f"found {body}, not the values of a replica")
    return RaftMetadata(term, vote, commit)


def write_metadata(disk: Disk, path: str, metadata: RaftMetadata) -> None:
    """Replace the file durably."""
    atomic_write(disk, path, sealed(asdict(metadata)))
