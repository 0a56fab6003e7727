"""A public class name means one thing in the whole tree."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "bigfleet"
GENERATED = {"v1alpha1", "insight", "etcd"}
EXCEPTIONS: Mapping[str, str] = {}
"""Names that two rooms share, each with the reason."""


def public_classes(package: Path) -> dict[str, set[str]]:
    """Return every public class name with the rooms that define it."""
    found: dict[str, set[str]] = {}
    for path in sorted(package.rglob("*.py")):
        room = path.relative_to(package).parts[0]
        if room in GENERATED:
            continue
        for name in _classes(ast.parse(path.read_text(encoding="utf-8"))):
            found.setdefault(name, set()).add(room)
    return found


def _classes(tree: ast.Module) -> Iterator[str]:
    return (
        node.name for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )


def test_no_two_rooms_define_a_public_class_of_one_name() -> None:
    shared = {name: rooms for name, rooms in public_classes(PACKAGE).items() if len(rooms) > 1}
    assert {name: rooms for name, rooms in shared.items() if name not in EXCEPTIONS} == {}
    assert sorted(EXCEPTIONS.keys() - shared.keys()) == [], "an exception that is not needed any more"


def test_a_second_class_of_one_name_is_noticed(tmp_path: Path) -> None:
    for room in ("model", "shard"):
        (tmp_path / room).mkdir()
        (tmp_path / room / "here.py").write_text(
            "class Machine: ...\nclass _Private: ...\n", encoding="utf-8"
        )
    assert public_classes(tmp_path) == {"Machine": {"model", "shard"}}
