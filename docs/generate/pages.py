"""Which page is made by which generator, and the comparison with what is on the disk."""

from collections.abc import Callable
from pathlib import Path

from docs.generate import (
    adr_index,
    alerts,
    boards,
    cli,
    errors,
    exit_codes,
    formulas,
    held_by,
    limits,
    machine_states,
    metrics,
    rooms,
    settings,
    values,
    wire,
)
from docs.generate.markdown import fill

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

GENERATORS: dict[str, Callable[[], str]] = {
    "adr/index.md": lambda: adr_index.page(DOCS / "adr"),
    "architecture.md": lambda: fill(
        (DOCS / "architecture.md").read_text(encoding="utf-8"), {"rooms": lambda: rooms.rooms(ROOT)}
    ),
    "concepts.md": lambda: formulas.filled((DOCS / "concepts.md").read_text(encoding="utf-8")),
    "design/held-by.md": lambda: held_by.page(ROOT),
    "reference/alerts.md": lambda: alerts.page(ROOT / "deploy" / "prometheus" / "rules.yaml"),
    "reference/boards.md": boards.page,
    "reference/cli.md": cli.page,
    "reference/errors.md": lambda: errors.page(ROOT / "bigfleet"),
    "reference/exit-codes.md": exit_codes.page,
    "reference/insight.md": lambda: wire.insight_page(ROOT / "proto"),
    "reference/limits.md": limits.page,
    "reference/machine-states.md": machine_states.page,
    "reference/machine-states.svg": machine_states.drawing,
    "reference/metrics.md": metrics.page,
    "reference/settings.md": settings.page,
    "reference/values.md": values.page,
    "reference/wire.md": lambda: wire.page(ROOT / "proto"),
}


def write_pages() -> list[Path]:
    """Write every page that differs, and return those."""
    stale = drifted()
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(GENERATORS[path.relative_to(DOCS).as_posix()](), encoding="utf-8")
    return stale


def drifted() -> list[Path]:
    """Return the pages whose text on the disk is not what the code says now, and those that no generator makes."""
    made = {DOCS / name: generate for name, generate in GENERATORS.items()}
    differing = [
        path for path, make in made.items() if not path.exists() or path.read_text(encoding="utf-8") != make()
    ]
    return sorted(differing)


def unknown_pages() -> list[Path]:
    """Return what lies in the reference folder and is made by no generator."""
    made = {DOCS / name for name in GENERATORS}
    return sorted(path for path in (DOCS / "reference").rglob("*") if path.is_file() and path not in made)
