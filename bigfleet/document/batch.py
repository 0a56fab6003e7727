"""Batches: one snapshot document per line, each read or refused for itself.

Why: thousands of documents are decided in one process; one bad line must cost its own answer and no other.
Must never: lose a line. The n-th answer belongs to the n-th line, so an empty line is refused and not skipped.
Rules: `engine#snapshot-batch`.
"""

from collections.abc import Iterable, Iterator

from bigfleet.document.canonical import one_line
from bigfleet.document.errors import DocumentError
from bigfleet.document.snapshot import SnapshotDocument, read_situation


def read_batch(lines: Iterable[bytes | str]) -> Iterator[SnapshotDocument | DocumentError]:
    """For each line its document, or the error that refuses it; lines are taken one at a time."""
    for line in lines:
        try:
            yield read_situation(line)
        except DocumentError as error:
            yield error


def write_refusal(error: DocumentError) -> bytes:
    """The answer to a line that was refused."""
    return one_line({"error": str(error)})
