"""Puts a fault into the engine in memory and runs one check against it.

Must never: leave a faulty module behind; modules are swapped out before and back in after.
"""

import importlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from tests.planted.faults import PLANNER_TESTS, ROOT, Fault
from tests.support.engine.world import EngineWorld
from tests.support.golden import replay

_RELOADED = ("bigfleet.engine", "bigfleet.model.demand", "bigfleet.model.needs_table")
SCRIPTS = ROOT / "tests" / "golden" / "engine"


class _Planter(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads one module from a text instead of its file."""

    def __init__(self, fault: Fault) -> None:
        self._name, self._source = fault.module_name, fault.source

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname == self._name else None

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self._source, f"<{self._name} with a fault>", "exec"), module.__dict__)  # noqa: S102


@contextmanager
def planted(fault: Fault | None, reloaded: tuple[str, ...] = _RELOADED) -> Iterator[None]:
    """The engine, or other modules by the beginnings of their names, with a fault in it, or afresh without one."""
    finders = [] if fault is None else [_Planter(fault)]
    kept = {name: module for name, module in sys.modules.items() if name.startswith(reloaded)}
    for name in kept:
        del sys.modules[name]
    sys.meta_path[:0] = finders
    try:
        yield
    finally:
        for finder in finders:
            sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.startswith(reloaded)]:
            del sys.modules[name]
        sys.modules.update(kept)
        for name, module in kept.items():
            parent, _, attribute = name.rpartition(".")
            setattr(sys.modules[parent], attribute, module)


def notices(check: str) -> bool:
    """Whether a check fails with the engine as it is imported now."""
    try:
        if check.startswith("test_"):
            getattr(_fresh(ROOT / PLANNER_TESTS), check)()
        else:
            _replay(next(SCRIPTS.glob(f"{check}*.txt")))
    except Exception:  # a fault may show itself in any way
        return True
    return False


def _fresh(path: Path) -> ModuleType:
    """A test module that imports the engine again."""
    spec = importlib.util.spec_from_file_location("planted_check", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["planted_check"] = module
    spec.loader.exec_module(module)
    return module


def _replay(path: Path) -> None:
    cycle = importlib.import_module("bigfleet.engine.cycle")
    expected = path.read_text(encoding="utf-8")
    assert replay(expected, EngineWorld(cycle.decide_situation).command) == expected
