"""The process behind a what-if: a snapshot and edits on standard input, the comparison on standard output.

Called by: `bigfleet.dashboard.what_if`, as `python -m bigfleet.dashboard.what_if_process BYTES`.
Must never: open a file or a connection.
Rules: dashboard 7.
"""

import json
import os
import resource
import sys
from collections.abc import Mapping

from bigfleet.document.compare import Side, compare
from bigfleet.document.compare_document import comparison_document
from bigfleet.document.edits import apply_edits, read_edits
from bigfleet.document.snapshot import read_situation
from bigfleet.explain.redecide import Redecider
from bigfleet.model.errors import BigFleetError


def compared(snapshot: bytes, edits: bytes) -> Mapping[str, object]:
    """Decide twice and return the difference; what is refused comes as the one key `refused`."""
    try:
        document = read_situation(snapshot)
        edited = apply_edits(document, read_edits(edits))
    except BigFleetError as error:
        return {"refused": str(error)}
    decide = Redecider()
    sides = (
        Side(document, decide(document.situation)),
        Side(edited.document, decide(edited.document.situation)),
    )
    return comparison_document(compare(*sides, edited.numbers))


def main() -> None:
    """Answer one question."""
    memory = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    os.nice(10)
    size = int(sys.stdin.buffer.readline())
    snapshot, edits = sys.stdin.buffer.read(size), sys.stdin.buffer.read()
    sys.stdout.write(json.dumps(compared(snapshot, edits)))


if __name__ == "__main__":
    main()
