"""`python -m deploy.release check [--tag vX.Y.Z]`, `build [--out DIR] [--dirty]`, `manifests [--check]`, `values IMAGE DIGEST`,
`conformance [--out DIR]`.

Exit codes: 0 done, 1 refused with one line for each reason, 2 usage.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from deploy.release.artefacts import build
from deploy.release.checks import problems
from deploy.release.conformance import certify
from deploy.release.errors import ReleaseError
from deploy.release.manifests import FOLDER, helm_or_reason, rendered
from deploy.release.pinned_image import values_file
from deploy.release.sources import ROOT, changed_files, export_commit, export_tree, head
from deploy.release.version import version_of


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
    manifests = verbs.add_parser(
        "manifests", help="render the charts for installation without Helm; needs Helm"
    )
    manifests.add_argument("--check", action="store_true", help="write nothing, name what differs")
    image = verbs.add_parser("values", help="print the values file that pins a published image")
    image.add_argument("image", help="where it was pushed, such as registry.example.org/team/bigfleet")
    image.add_argument("digest", help="what the registry calls it, sha256:…")
    judged = verbs.add_parser(
        "conformance", help="certify both of our providers and keep the reports; takes minutes"
    )
    judged.add_argument("--out", type=Path, default=ROOT / "conformance", help="directory for the reports")
    given = parser.parse_args(argv)
    try:
        if given.verb == "conformance":
            for path in certify(given.out, version_of(ROOT)):
                print(path)
            return 0
        if given.verb == "manifests":
            return _manifests(check=given.check)
        if given.verb == "values":
            print(values_file(given.image, given.digest, version_of(ROOT)), end="")
            return 0
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


def _manifests(*, check: bool) -> int:
    stale = 0
    for name, text in rendered(ROOT, helm_or_reason(ROOT / "tests" / "testbed")).items():
        path = ROOT / FOLDER / name
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale = 1
        if check:
            print(f"release: {FOLDER}/{name}: differs from the charts; run make manifests", file=sys.stderr)
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {FOLDER}/{name}")
    return stale if check else 0


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
