"""`python -m docs.generate` writes the generated pages; `--check` writes nothing, names what drifted and exits 1."""

import sys
from collections.abc import Sequence

from docs.generate.pages import ROOT, drifted, write_pages


def main(argv: Sequence[str]) -> int:
    """Write or check the pages."""
    if list(argv) not in ([], ["--check"]):
        print("docs.generate: found " + " ".join(argv) + ", allowed is nothing or --check", file=sys.stderr)
        return 2
    if not argv:
        for path in write_pages():
            print(f"wrote {path.relative_to(ROOT)}")
        return 0
    stale = drifted()
    for path in stale:
        print(f"{path.relative_to(ROOT)}: differs from the code; run make docs", file=sys.stderr)
    return 1 if stale else 0


sys.exit(main(sys.argv[1:]))
