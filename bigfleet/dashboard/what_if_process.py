"""The process that runs a what-if: reads question and snapshot from standard input, writes the answer to standard output.

Must never: open a file or a connection.
Rules: `dashboard#what-if`.
"""

import json
import os
import resource
import sys
import zlib
from collections.abc import Mapping
from typing import Any

from bigfleet.dashboard.core.difference import shown
from bigfleet.document.edits import edits_of
from bigfleet.document.snapshot import read_situation
from bigfleet.explain.horizon import Horizon
from bigfleet.explain.what_if import explain_document, run_what_if
from bigfleet.model.errors import BigFleetError


def answered(snapshot: bytes, question: Mapping[str, Any]) -> Mapping[str, object]:
    """Answer a question that `bigfleet.dashboard.what_if_requests` has checked: with `answer`, or with `error` if it is refused."""
    try:
        document = read_situation(snapshot)
        edits = edits_of(question["edits"])
        horizon = Horizon(**question["horizon"])
        if question["explain"]:
            return {"answer": explain_document(document, edits, horizon, **question["explain"])}
        return {"answer": shown(run_what_if(document, edits, horizon).document())}
    except BigFleetError as error:
        return {"error": str(error)}


def main() -> None:
    """Answer one question."""
    memory = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    os.nice(10)
    question = json.loads(sys.stdin.buffer.readline())
    snapshot = zlib.decompress(sys.stdin.buffer.read())
    sys.stdout.write(json.dumps(answered(snapshot, question)))


if __name__ == "__main__":
    main()
