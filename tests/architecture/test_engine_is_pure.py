"""The engine knows the model, NumPy and the standard library, of that nothing with a clock, a lot or an outside; and no
module is so long that nobody reads it."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENGINE = sorted((ROOT / "bigfleet" / "engine").rglob("*.py"))
OURS = ("bigfleet.engine", "bigfleet.model")
IMPURE = {
    *("time", "datetime", "zoneinfo", "random", "secrets", "uuid"),
    *("asyncio", "threading", "multiprocessing", "select", "signal", "subprocess"),
    *("io", "logging", "os", "pathlib", "socket", "ssl", "sys", "tempfile"),
}
MOST_LINES = 500
GENERATED = ("_pb2.py", "_pb2_grpc.py")


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." if node.level else str(node.module)


def is_pure(name: str) -> bool:
    top = name.partition(".")[0]
    if top == "bigfleet":
        return f"{name}.".startswith(tuple(f"{room}." for room in OURS))
    return name in {"numpy", "numpy.typing"} or (top in sys.stdlib_module_names and top not in IMPURE)


@pytest.mark.parametrize("path", ENGINE, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_engine_imports_the_model_numpy_and_what_is_pure_of_the_standard_library(path: Path) -> None:
    assert [name for name in imports(path) if not is_pure(name)] == []


@pytest.mark.parametrize(
    "name", ["time", "os.path", "numpy.random", "grpc", "bigfleet.aio.clock", "bigfleet.modelling"]
)
def test_what_is_not_pure_is_told_apart(name: str) -> None:
    assert not is_pure(name)


def test_no_module_is_longer_than_a_reader_bears() -> None:
    modules = [path for path in (ROOT / "bigfleet").rglob("*.py") if not path.name.endswith(GENERATED)]
    lengths = {str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines()) for path in modules}
    assert {name: length for name, length in lengths.items() if length > MOST_LINES} == {}
