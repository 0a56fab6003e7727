"""The seam check finds what is planted, leaves clean code alone, and the whole tree passes it."""

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests.architecture.seam_rules import Rule
from tests.architecture.seam_visitor import check_source
from tests.architecture.seams import ADAPTERS, PACKAGE, Adapter, check_tree


def rules_in(source: str) -> list[Rule]:
    return [rule for rule, _ in check_source(dedent(source), "planted.py")]


def test_every_adapter_exists_and_gives_a_reason() -> None:
    assert [inside for inside in ADAPTERS if not (PACKAGE / inside).is_file()] == []
    assert all(len(adapter.reason) > 10 and adapter.rules for adapter in ADAPTERS.values())


PLANTED = {
    Rule.CLOCK: [
        "import time",
        "import time as clock",
        "from time import monotonic",
        "def f():\n    import time",
        "import importlib\nimportlib.import_module('time')",
        "__import__('time')",
        "from datetime import datetime\nnow = datetime.now()",
        "from datetime import datetime as when\nnow = when.utcnow()",
        "import datetime\nnow = datetime.datetime.now(datetime.UTC)",
        "import datetime as dt\ntoday = dt.date.today()",
        "from datetime import date, datetime\nfactory = date.today",
        "import asyncio\nasync def f():\n    await asyncio.sleep(1)",
        "from asyncio import sleep",
        "import asyncio as a\nnap = a.sleep",
        "import asyncio\nasync def f():\n    async with asyncio.timeout(5): ...",
        "from asyncio import wait_for",
        "import asyncio\nnow = asyncio.get_event_loop().time()",
        "import asyncio\nnow = asyncio.get_running_loop().time()",
        "def f(loop): return loop.time()",
        "class A:\n    def f(self): return self._loop.time()",
        "import asyncio\ndef f(events: asyncio.AbstractEventLoop): return events.time()",
        "import asyncio\ndef f():\n    events = asyncio.get_running_loop()\n    events.call_later(1, print)",
    ],
    Rule.RANDOM: [
        "import random",
        "from random import random",
        "import secrets",
        "import uuid",
        "from uuid import uuid4",
        "import os\nsalt = os.urandom(8)",
        "from os import urandom",
        "import os as system\nsource = system.getrandom",
        "import numpy as np\nx = np.random.default_rng()",
        "from numpy import random as lots",
        "import numpy.random",
    ],
    Rule.NETWORK: [
        "import socket",
        "from socket import socket",
        "import ssl",
        "import http.server",
        "from http import client",
        "import urllib.request",
        "import asyncio\nserve = asyncio.start_server",
        "def f(loop): return loop.create_server(None)",
    ],
    Rule.THREADS: [
        "import threading",
        "from threading import Thread",
        "import concurrent.futures",
        "from concurrent.futures import ThreadPoolExecutor",
        "import multiprocessing.pool",
    ],
    Rule.PROCESS: [
        "import subprocess",
        "from subprocess import run",
        "import os\nos._exit(1)",
        "import os\nhome = os.environ['HOME']",
        "from os import getenv",
        "import sys\nsys.exit(1)",
        "import signal\nsignal.signal(15, print)",
        "import asyncio\nrun = asyncio.create_subprocess_exec",
    ],
    Rule.DISK: [
        "open('x')",
        "def f():\n    with open('x') as file: ...",
        "reader = open",
        "import io\nio.open('x')",
        "import os\nos.open('x', 0)",
        "import os\nos.replace('a', 'b')",
        "import os\nos.path.exists('a')",
        "from os import listdir",
        "from os.path import exists",
        "import tempfile",
        "import shutil",
        "import fcntl",
        "from pathlib import Path\nx = Path('x').read_text()",
        "def f(where): return where.write_bytes(b'')",
        "from pathlib import Path\ndef f(path: Path): path.mkdir()",
        "from pathlib import Path\ndef f(path: 'Path | None'): return (path / 'x').exists()",
        "import pathlib\ndef f(path: pathlib.Path): path.with_suffix('.x').rename('y')",
        "from pathlib import Path\nhere = Path('x')\nhere.parent.stat()",
        "from pathlib import Path\nhere = Path.cwd",
        "from pathlib import Path\nclass A:\n    root: Path\n    def f(self): return self.root.open()",
    ],
    Rule.ORDER: [
        "for x in {1, 2}: print(x)",
        "for x in set(y): print(x)",
        "for x in frozenset(y): print(x)",
        "a = [x for x in {1, 2}]",
        "a = list({x for x in y})",
        "a = tuple(set(y))",
        "a = {x: 1 for x in set(y)}",
        "a = ', '.join({'a', 'b'})",
        "a = ', '.join(str(x) for x in set(y))",
        "a = list(enumerate(set(y)))",
        "a = [*set(y)]",
        "print(*set(y))",
        "a = f'{set(y)}'",
        "a = str(set(y))",
        "a, b = set(y)",
        "a = next(iter({1, 2}))",
        "def f():\n    yield from set(y)",
        "names = set(y)\nfor name in names: print(name)",
        "def f(names: set[str]):\n    return [name for name in names]",
        "def f(names: 'frozenset[str] | None'):\n    return list(names)",
        "from collections.abc import Set as AbstractSet\ndef f(names: AbstractSet[str]):\n    return list(names)",
        "from typing import Final\nNAMES: Final = frozenset({'a'})\na = list(NAMES)",
        "from typing import Annotated\ndef f(x: Annotated[set[str], 'not a type']): return list(x)",
        "def f(a: set[int], b):\n    return list(a | b)",
        "def f(a: dict[str, int], b):\n    for x in a.keys() - b: print(x)",
        "def f(a: set[int]):\n    for x in a.union([1]): print(x)",
        "def f(a: set[int], b: set[int], c):\n    for x in a if c else b: print(x)",
        "def f(a: set[int]): return a.pop()",
        "def f(a: set[str]): return min(a, key=len)",
        "class A:\n    seen: set[str]\n    def f(self): return list(self.seen)",
        "class A:\n    def __init__(self): self.seen: set[str] = set()\n    def f(self): return [x for x in self.seen]",
        "class A:\n    def __init__(self, seen: set[str]): self.seen = seen\n    def f(self): return list(self.seen)",
        "class A:\n    def __init__(self): self.a, self.b = 1, set()\n    def f(self): return list(self.b)",
        "import asyncio\nasync def f(t):\n    done, pending = await asyncio.wait(t)\n    for x in done: print(x)",
        "import asyncio\ndef f():\n    for task in asyncio.all_tasks(): task.cancel()",
        "import asyncio\nasync def f(c):\n    for x in asyncio.as_completed(c): await x",
        "from weakref import WeakSet\nlive = WeakSet()\na = list(live)",
        "def f(out: list[int], a: set[int]): out.extend(a)",
        "def f(a: set[str]): return dict.fromkeys(a)",
        "if (seen := set(y)):\n    print(list(seen))",
    ],
}


@pytest.mark.parametrize(
    ("rule", "source"),
    [
        pytest.param(rule, source, id=f"{rule.name} {source!r}")
        for rule, all_of in PLANTED.items()
        for source in all_of
    ],
)
def test_what_is_planted_is_found_once_by_its_rule(rule: Rule, source: str) -> None:
    assert rules_in(source) == [rule]


@pytest.mark.parametrize(
    "source",
    [
        "for x in sorted({1, 2}): print(x)",
        "def f(names: set[str]): return ', '.join(sorted(names))",
        "def f(names: set[str]): return sorted(name.upper() for name in names)",
        "def f(names: set[str]): return sorted([name for name in names])",
        "def f(names: set[str]): return sorted(map(str, names))",
        "def f(names: set[str]): return len(names), min(names), any(n for n in names), sum(1 for n in names)",
        "def f(names: set[str]): return {name.upper() for name in names} | {*names}",
        "def f(names: set[str]): return 'a' in names and names <= {'a'}",
        "def f(names: set[str]):\n    (only,) = names\n    return only",
        "def f(names: dict[str, int]):\n    for name in names.keys(): print(name)",
        "names = set(y)\nnames = sorted(names)\nfor name in names: print(name)",
        "names = set(y)\ndef f(names: list[str]):\n    for name in names: print(name)",
        "a = set(y)\nb = [a for a in [1, 2]]",
        "class A:\n    def set(self): return 1\n    def f(self): return [x for x in self.set()]",
        "def f(disk): disk.open('x'), disk.rename('a', 'b'), disk.exists('a'), disk.stat('a'), disk.rmdir('d')",
        "def f(text: str): return text.replace('a', 'b')",
        "from pathlib import PurePath\ndef f(path: PurePath): return path.name, path / 'x'",
        "from pathlib import Path\ndef f(path: Path): return path.with_suffix('.x').name",
        "import os\ndef f(path): return os.fspath(path), os.path.join('a', 'b')",
        "from os import fspath, PathLike",
        "class Door:\n    def open(self): ...\ndef f(door: Door): door.open()",
        "def f(open): open('x')",
        "async def f(clock): await clock.sleep(1); clock.call_later(1, print); return clock.time()",
        "from datetime import datetime, UTC\ndef f(s): return datetime.fromtimestamp(s, UTC)",
        "import asyncio\nasync def f():\n    async with asyncio.TaskGroup() as group: group.create_task(g())",
        "import asyncio\nasync def f(work): return await asyncio.to_thread(work)",
        "import signal\nSTOP = signal.SIGTERM",
        "import sys\nout = sys.stdout",
        "import numpy as np\nx = np.zeros(3)",
        "from bigfleet.aio.clock import timeout",
        "text = 'import time; time.sleep(1); open(x)'",
        "from . import time",
    ],
)
def test_clean_code_is_left_alone(source: str) -> None:
    assert rules_in(source) == []


def planted_package(root: Path) -> Path:
    package = root / "planted"
    (package / "aio").mkdir(parents=True)
    (package / "aio" / "clock.py").write_text("import time\n\n\ndef now():\n    return open('x')\n")
    (package / "core.py").write_text("x = 1\nimport random  # noqa: seams - there is no such escape\n")
    (package / "made_pb2.py").write_text("import time\n")
    return package


def test_an_adapter_covers_its_own_rules_in_its_own_module_and_nothing_else(tmp_path: Path) -> None:
    adapters = {"aio/clock.py": Adapter((Rule.CLOCK,), "the system clock")}
    found = [str(finding) for finding in check_tree(planted_package(tmp_path), adapters)]
    assert found == [
        "planted/aio/clock.py:5: use of open: files come through the disk seam",
        "planted/core.py:2: import of random: randomness and ids come through the rng and ids seams",
    ]


def test_an_exemption_that_is_not_needed_is_a_finding_itself(tmp_path: Path) -> None:
    adapters = {
        "aio/clock.py": Adapter((Rule.CLOCK, Rule.DISK, Rule.NETWORK), "asks for too much"),
        "core.py": Adapter((Rule.RANDOM,), "rightly"),
        "gone.py": Adapter((Rule.DISK,), "was deleted long ago"),
    }
    found = [str(finding) for finding in check_tree(planted_package(tmp_path), adapters)]
    assert [line.split(":")[0] for line in found] == ["planted/aio/clock.py", "planted/gone.py"]
    assert all("take it off the list" in line for line in found)


def test_a_module_that_does_not_parse_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("x = 1\nif:\n")
    (finding,) = check_tree(tmp_path, {})
    assert (finding.path, finding.line) == (f"{tmp_path.name}/broken.py", 2)


def test_the_command_prints_one_line_per_finding_and_exits_with_one(tmp_path: Path) -> None:
    package = planted_package(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "tests.architecture.seams", str(package)],
        cwd=PACKAGE.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert (
        "planted/core.py:2: import of random: randomness and ids come through the rng and ids seams"
        in done.stdout.split("\n")
    )
    assert done.stderr == ""


def test_the_whole_tree_keeps_to_the_seams_and_the_command_is_silent_on_it() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.architecture.seams"],
        cwd=PACKAGE.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
