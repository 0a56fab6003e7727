"""Every module, file and flag that a docstring or a page names in backquotes exists."""

from collections.abc import Callable

import pytest

from tests.docs.named_things import (
    ROOT,
    built,
    file_exists,
    files,
    flag_exists,
    flags,
    module_exists,
    modules,
    prose,
    sources,
)

TEXTS = {path.relative_to(ROOT).as_posix(): prose(path) for path in sources()}


def named(find: Callable[[str], set[str]]) -> dict[str, list[str]]:
    """Return each name with the places that use it."""
    found: dict[str, list[str]] = {}
    for path, text in TEXTS.items():
        for name in find(text):
            found.setdefault(name, []).append(path)
    return found


MODULES, FILES, FLAGS = named(modules), named(files), named(flags)


@pytest.mark.parametrize("name", sorted(MODULES))
def test_a_module_that_is_named_exists(name: str) -> None:
    assert module_exists(name), f"{name} is named in {', '.join(MODULES[name])}"


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_file_that_is_named_exists(name: str) -> None:
    assert file_exists(name), f"{name} is named in {', '.join(FILES[name])}"


@pytest.mark.parametrize("name", sorted(FLAGS))
def test_a_flag_that_is_named_exists(name: str) -> None:
    assert flag_exists(name), f"--{name} is named in {', '.join(FLAGS[name])}"


def test_a_planted_dead_name_of_each_kind_is_found() -> None:
    text = (
        "As `bigfleet.model.errors.NoSuchError` and `bigfleet.nowhere.at_all()` say, `tests/golden/` and `docs/nowhere.md` "
        "and `tests/nowhere.py::test_it` and `proto/bigfleet/*.nothing` hold it, see `bigfleet shard --no-such-flag 3`."
    )
    assert {name for name in modules(text) if not module_exists(name)} == {
        "bigfleet.model.errors.NoSuchError",
        "bigfleet.nowhere.at_all",
    }
    assert {name for name in files(text) if not file_exists(name)} == {
        "docs/nowhere.md",
        "tests/nowhere.py",
        "proto/bigfleet/*.nothing",
    }
    assert {name for name in flags(text) if not flag_exists(name)} == {"no-such-flag"}


def test_living_names_are_no_strangers() -> None:
    text = "`bigfleet.model.errors.BigFleetError`, `bigfleet/shard/`, `docs/adr/0001-*.md`, `--reclaim-cap-fraction`"
    assert [name for name in modules(text) if not module_exists(name)] == []
    assert [name for name in files(text) if not file_exists(name)] == []
    assert [name for name in flags(text) if not flag_exists(name)] == []
    assert (len(modules(text)), len(files(text)), len(flags(text))) == (1, 2, 1)


def test_what_is_not_built_yet_may_name_what_is_to_come() -> None:
    page = "# Shard\n\n`--aa`\n\n## Not built yet {#not-built-yet}\n\n`--bb`\n\n### X {#x}\n\n## Later {#later}\n\n`--cc`\n"
    assert flags(built(page)) == {"aa", "cc"}
