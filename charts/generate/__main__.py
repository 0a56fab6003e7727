"""`python -m charts.generate` writes what is made of the charts; `--check` writes nothing, names what drifted and exits 1."""

import sys
from collections.abc import Sequence

from charts.generate.files import ROOT, drifted, write


def main(argv: Sequence[str]) -> int:
    """Write or check the files."""
    if list(argv) not in ([], ["--check"]):
        print("charts.generate: found " + " ".join(argv) + ", allowed is nothing or --check", file=sys.stderr)
        return 2
    if not argv:
        for path in write():
            print(f"wrote {path.relative_to(ROOT)}")
        return 0
    stale = drifted()
    for path in stale:
        print(f"{path.relative_to(ROOT)}: differs from its source; run make charts", file=sys.stderr)
    return 1 if stale else 0


sys.exit(main(sys.argv[1:]))
