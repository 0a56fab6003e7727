"""Nothing of the shard reaches coordinator code, in production or in its tests.

A shard must go on for ever without a coordinator, so none of its modules may even import one
(`shard#static-stability`). The import contracts hold this for direct imports of rooms; here the whole graph below the
shard is walked, and its test modules.
"""

import ast
from pathlib import Path

import pytest
from grimp import build_graph  # what import-linter stands on

ROOT = Path(__file__).parents[2]
FORBIDDEN = ("bigfleet.coordinator", "bigfleet.coordlink", "bigfleet.v1alpha1.coordinator_pb2")


def forbidden(module: str) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in FORBIDDEN)


@pytest.mark.rule("shard#static-stability", "coordinator#static-stability")
def test_no_module_of_the_shard_reaches_coordinator_code() -> None:
    graph = build_graph("bigfleet", cache_dir=None)
    ours = [
        module
        for module in graph.modules
        if module == "bigfleet.shard" or module.startswith("bigfleet.shard.")
    ]
    assert "bigfleet.shard.cycle_loop" in ours
    reached = {found for module in ours for found in graph.find_upstream_modules(module)}
    assert sorted(filter(forbidden, reached)) == []


@pytest.mark.rule("shard#static-stability")
def test_no_test_of_the_shards_core_and_shell_names_coordinator_code() -> None:
    named = []
    for path in sorted((ROOT / "tests" / "unit" / "shard").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            modules = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            named += [f"{path.name}: {module}" for module in modules if forbidden(module)]
    assert named == []
