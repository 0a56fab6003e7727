"""The page on the fake provider is correct: its files can be read, its tables are complete, its example runs."""

import asyncio
import re
from pathlib import Path
from textwrap import indent

import pytest

from bigfleet.app.fake_provider.command import FakeProviderSettings
from bigfleet.cli.framework.options import options_of
from bigfleet.model.machine import MachineState
from bigfleet.provider.fake.catalogue_file import read_catalogue
from bigfleet.provider.fake.control import VERBS
from bigfleet.provider.fake.inventory import read_inventory, slots_of
from bigfleet.provider.fake.lies.registry import LIES
from bigfleet.provider.fake.options import FakeOptions
from bigfleet.provider.fake.provider import FakeProvider
from bigfleet.provider.fake.script import read_script
from bigfleet.provider.fake.selector import Selector
from bigfleet.provider.kit.raw_client import RawProviderClient
from bigfleet.testing.loop import run_virtual
from tests.support.fake_provider import VirtualFake, pool, spot

PAGE = (Path(__file__).resolve().parents[4] / "docs" / "fake-provider.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"```yaml\n# (\S+)\n(.*?)```", PAGE, re.DOTALL))


def test_the_files_of_the_page_can_be_read() -> None:
    assert [pool.name for pool in read_inventory(FILES["pools.yaml"].encode())] == [
        "metal",
        "spot",
        "serving",
    ]
    assert read_catalogue(FILES["catalogue.yaml"].encode()).name == "two-kinds"
    assert [step.verb for step in read_script(FILES["script.yaml"].encode())] == [
        "fail",
        "price",
        "refuse",
        "restart",
    ]


def test_the_page_lists_every_verb_with_its_fields_and_every_lie() -> None:
    rows = {
        cells[1].strip().strip("`"): cells for line in PAGE.splitlines() if len(cells := line.split("|")) == 5
    }
    for verb in VERBS.values():
        assert verb.name in rows, verb.name
        fields = set(re.findall(r"`(\w+)`", rows[verb.name][3]))
        if verb.name not in ("fail", "add"):  # the page says "as" or "the keys of"
            assert fields == set(verb.form), verb.name
    for name in LIES:
        assert f"`{name}`" in PAGE, name


def test_the_page_names_only_flags_that_exist() -> None:
    known = {f"--{option.flag}" for option in options_of(FakeProviderSettings)}
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE)) - {
        "--help",
        "--transition-timeout",
        "--seed-count",
    }
    assert named - known == set()


def test_the_examples_of_the_page_run(capsys: pytest.CaptureFixture[str]) -> None:
    block = "".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
    names = {
        "FakeOptions": FakeOptions,
        "FakeProvider": FakeProvider,
        "RawProviderClient": RawProviderClient,
        "VirtualFake": VirtualFake,
        "slots_of": slots_of,
        "pool": pool,
        "spot": spot,
        "MachineState": MachineState,
        "Selector": Selector,
    }
    exec(f"async def example():\n{indent(block, '    ')}", names)  # noqa: S102  the page is ours
    example = names["example"]
    assert asyncio.iscoroutinefunction(example)
    run_virtual(example())
    assert '"event":"transition"' in capsys.readouterr().out
