"""`python -m release check [--tag vX.Y.Z]` and `python -m release build [--out DIR] [--dirty]`.

Exit codes: 0 done, 1 refused with one line for each reason, 2 usage.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from release.artefacts import build
from release.checks import problems
from release.errors import ReleaseError
from release.sources import ROOT, changed_files, export_commit, export_tree, head


def main(argv: Sequence[str]) -> int:
    """Check or make a release."""
    parser = argparse.ArgumentParser(
        prog="release", description="Check and make a release of this repository."
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    check = verbs.add_parser("check", help="name everything that speaks against a release")
    check.add_argument("--tag", default="", help="the tag that is to be released, v and the version")
    make = verbs.add_parser("build", help="make all files of a release from the commit that is checked out")
    make.add_argument("--out", type=Path, default=ROOT / "dist", help="an empty directory")
    make.add_argument("--tag", default="", help="as for check")
    make.add_argument(
        "--dirty", action="store_true", help="take the files as they are, to try it before a commit"
    )
    given = parser.parse_args(argv)
    try:
        found = problems(ROOT, tag=given.tag)
        if given.verb == "build" and not given.dirty:
            found += [f"{line[3:]}: differs from the commit" for line in changed_files()]
        for line in found:
            print(f"release: {line}", file=sys.stderr)
        if not found and given.verb == "build":
            _build(given.out, dirty=given.dirty)
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 1 if found else 0


def _build(out: Path, *, dirty: bool) -> None:
    commit = head()
    with tempfile.TemporaryDirectory() as scratch:
        sources = Path(scratch) / "bigfleet"
        sources.mkdir()
        if dirty:
            export_tree(sources)
        else:
            export_commit(sources, commit.id)
        for path in build(sources, commit, out):
            print(path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
