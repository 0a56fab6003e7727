"""`python -m bigfleet.kube.crds.generate` writes the chart and the field tables; `--check` only names what differs.

Must never: touch a file that it does not generate, except stale templates inside the chart.
Rules: `packaging#crds`, `packaging#make-targets`.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from bigfleet.kube.crds.render import CHART, PAGE, chart_files, page_with_fields

ROOT = Path(__file__).resolve().parents[3]


def expected(root: Path = ROOT) -> dict[Path, str]:
    """Return the content of every generated file."""
    files = {root / name: content for name, content in chart_files().items()}
    page = root / PAGE
    return files | {page: page_with_fields(page.read_text(encoding="utf-8"))}


def drifted(root: Path = ROOT) -> list[Path]:
    """Return the generated files whose content differs, and files in the chart that are not generated."""
    wanted = expected(root)
    stale = {
        path
        for path, content in wanted.items()
        if not path.exists() or path.read_text(encoding="utf-8") != content
    }
    strays = {path for path in (root / CHART).rglob("*") if path.is_file() and path not in wanted}
    return sorted(stale | strays)


def write(root: Path = ROOT) -> list[Path]:
    """Write what differs, delete what is not generated, and return both."""
    wanted = expected(root)
    stale = drifted(root)
    for path in stale:
        if path in wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[path], encoding="utf-8")
        else:
            path.unlink()
    return stale


def main(argv: Sequence[str]) -> int:
    """Write or check the generated files."""
    if list(argv) not in ([], ["--check"]):
        found = " ".join(argv)
        print(f"bigfleet.kube.crds.generate: found {found}, allowed is nothing or --check", file=sys.stderr)
        return 2
    stale = drifted() if argv else write()
    for path in stale:
        name = path.relative_to(ROOT)
        if argv:
            print(f"{name}: differs from the definitions; run make crds", file=sys.stderr)
        else:
            print(f"wrote {name}")
    return 1 if argv and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
