"""Two versions of this repository side by side: an earlier commit, and a next version made from the tree as it is.

Why: that versions work together is shown by running them together. The earlier one is what users may run now; the next one
has what a next version may add: a field on each edge, a kind of command, a table, a property of a custom resource.
Must never: touch the tree it is made from, or go on when an edit no longer fits: then the edit has to be written anew.
"""

import io
import json
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import copytree, ignore_patterns
from typing import Final

from bigfleet.coordinator.core.commands import KNOWN_LEVEL
from bigfleet.kube.crds.definition import Definition
from bigfleet.kube.crds.definitions import DEFINITIONS

ROOT: Final = Path(__file__).resolve().parents[3]
EARLIER: Final = "73a7ab8df3cbea4204d14548c804db46fe257634"
"""The commit that plays version N; a release moves it to the tag before."""
NEXT_VERSION: Final = "99.0.0"
NEXT_LEVEL: Final = KNOWN_LEVEL + 1
NOTE_FIELD: Final = 1990
"""The number of every field that the next version adds."""

_COORDINATOR: Final = "bigfleet/coordinator"
_PROTO: Final = "proto/bigfleet/v1alpha1"
_FIELD: Final = f"  // A remark, new in the next version.\n  string note = {NOTE_FIELD};\n\n"

EDITS: Final[tuple[tuple[str, str, str], ...]] = (
    # A field on each edge: admin to coordinator and back, shard to coordinator, operator to shard.
    *(
        (f"{_PROTO}/{file}.proto", f"message {message} {{\n", f"message {message} {{\n{_FIELD}")
        for file, message in (
            ("coordinator", "AssignDomainRequest"),
            ("coordinator", "DomainAssignment"),
            ("coordinator", "ShardReport"),
            ("shard", "Hello"),
        )
    ),
    (
        "bigfleet/wire/operator_frames.py",
        "hello = shard_pb2.Hello(",
        'hello = shard_pb2.Hello(note="an operator of the next version", ',
    ),
    (
        "bigfleet/wire/shard_reports.py",
        "    message = pb.ShardReport(\n",
        '    message = pb.ShardReport(\n        note="a shard of the next version",\n',
    ),
    # A kind of command, with a table of its own.
    (
        f"{_COORDINATOR}/core/commands.py",
        "KINDS: Final[Mapping[str, CommandKind]] = {\n",
        "def note_domain(key: str, value: str, note: str) -> Command:\n"
        '    return {"kind": "note_domain", "key": key, "value": value, "note": note}\n\n\n'
        "def _note_domain(tables: Tables, given: Mapping[str, Any]) -> CommandOutcome:\n"
        '    tables.notes[fields.text(given, "key") + "=" + fields.text(given, "value")] = fields.text(given, "note")\n'
        "    return DONE\n\n\n"
        "KINDS: Final[Mapping[str, CommandKind]] = {\n"
        f'    "note_domain": CommandKind({NEXT_LEVEL}, _note_domain),\n',
    ),
    (
        f"{_COORDINATOR}/core/tables.py",
        "        self.level = FIRST_LEVEL\n",
        "        self.level = FIRST_LEVEL\n        self.notes: dict[str, str] = {}\n",
    ),
    (
        f"{_COORDINATOR}/core/table_text.py",
        '        "level": tables.level,\n',
        '        "level": tables.level,\n        "notes": dict(tables.notes),\n',
    ),
    (
        f"{_COORDINATOR}/core/table_text.py",
        "    tables = Tables()\n",
        '    tables = Tables()\n    tables.notes = dict(given.get("notes", {}))\n',
    ),
    # It is proposed only where the level allows it; before, the field is as good as not there.
    (
        f"{_COORDINATOR}/service.py",
        "        return pb.AssignDomainResponse()\n",
        f"        if request.note and self._state_machine.read(lambda tables: tables.level) >= {NEXT_LEVEL}:\n"
        "            noted = commands.note_domain(request.topology_key, request.topology_value, request.note)\n"
        "            _accepted(await self._proposer.propose(noted, call))\n"
        "        return pb.AssignDomainResponse()\n",
    ),
    (
        f"{_COORDINATOR}/service.py",
        "asyncio.to_thread(_encode_assignments, owned)",
        "asyncio.to_thread(_encode_assignments, owned, self._state_machine.read(lambda tables: dict(tables.notes)))",
    ),
    (
        f"{_COORDINATOR}/service.py",
        "def _encode_assignments(owned: dict[str, list[tuple[str, str]]])",
        "def _encode_assignments(owned: dict[str, list[tuple[str, str]]], notes: dict[str, str])",
    ),
    (
        f"{_COORDINATOR}/service.py",
        "response.assignments.add(topology_key=key, topology_value=value, shard_id=shard)",
        "response.assignments.add(topology_key=key, topology_value=value, shard_id=shard,"
        ' note=notes.get(f"{key}={value}", ""))',
    ),
    # A property of a custom resource.
    (
        "bigfleet/kube/crds/capacity_request.py",
        "_SPEC: Final = with_rules(\n    fields(\n        {\n",
        "_SPEC: Final = with_rules(\n    fields(\n        {\n"
        '            "note": text("A remark, new in the next version.", most=MAX_VALUE),\n',
    ),
)


@dataclass(frozen=True)
class Build:
    """One version: where its tree is, and what it calls itself."""

    root: Path
    version: str
    origin: str = "this tree"
    """Where it comes from, for whoever reads a failure."""

    @property
    def environ(self) -> dict[str, str]:
        """What lets a Python process of the one environment run this version."""
        return {"PYTHONPATH": str(self.root)}


def earlier(into: Path, *, wanted: str = EARLIER, root: Path = ROOT) -> Build:
    """Unpack version N: the earlier commit, or the best that can be had without it, and say which.

    A clone that was made shallow or rewritten lacks the commit. Then the version before the last change of the package plays N, and
    where there is no history at all, as in an unpacked sdist, this tree does: N+1 still adds what it adds.
    """
    for commit, origin in _candidates(wanted, root):
        packed = _git(root, "archive", "--format=tar", commit, "bigfleet", "cmd")
        if packed is not None:
            with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
                archive.extractall(into, filter="data")
            return Build(into, _version(into), origin)
    for name in ("bigfleet", "cmd"):
        copytree(root / name, into / name, ignore=ignore_patterns("__pycache__"))
    missing = f"this tree as it is: commit {wanted[:12]} is not here, nor any other (git fetch --unshallow brings it)"
    return Build(into, _version(into), missing)


def _candidates(wanted: str, root: Path) -> Iterator[tuple[str, str]]:
    yield wanted, f"commit {wanted[:12]}"
    changed = _git(root, "rev-list", "--max-count=1", "HEAD", "--", "bigfleet")
    if changed and changed.strip():
        before = f"{changed.decode().strip()}^"
        yield (
            before,
            f"commit {before[:12]}^, since {wanted[:12]} is not in this clone (git fetch --unshallow brings it)",
        )


def following(into: Path) -> Build:
    """Make the next version of the tree as it is."""
    for name in ("bigfleet", "cmd", "proto"):
        copytree(ROOT / name, into / name, ignore=ignore_patterns("__pycache__"))
    for name, before, after in EDITS:
        path = into / name
        text = path.read_text(encoding="utf-8")
        found = text.count(before)
        assert found == 1, f"{name}: {before!r} is there {found} times, the edit wants it once"
        path.write_text(text.replace(before, after), encoding="utf-8")
    version = into / "bigfleet" / "version.py"
    text = re.sub(r'__version__ = "[^"]*"', f'__version__ = "{NEXT_VERSION}"', version.read_text("utf-8"))
    version.write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={into / 'proto'}"]
    command += [
        f"--python_out={into}",
        *(f"bigfleet/v1alpha1/{name}.proto" for name in ("coordinator", "shard")),
    ]
    subprocess.run(command, cwd=into / "proto", check=True, capture_output=True)
    return Build(into, _version(into))


def definitions_of(build: Build) -> tuple[Definition, ...]:
    """Return the custom resources as that version defines them."""
    script = (
        "import json; from bigfleet.kube.crds.definitions import DEFINITIONS as them;"
        "print(json.dumps({one.kind: [one.spec, one.status] for one in them}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=build.root,
        env=build.environ,
        check=True,
        capture_output=True,
        text=True,
    )
    schemas = json.loads(done.stdout)
    return tuple(
        replace(ours, spec=schemas[ours.kind][0], status=schemas[ours.kind][1])
        for ours in DEFINITIONS
        if ours.kind in schemas
    )


def _version(root: Path) -> str:
    found = re.search(r'__version__ = "([^"]+)"', (root / "bigfleet" / "version.py").read_text("utf-8"))
    assert found is not None
    return found[1]


def _git(root: Path, *arguments: str) -> bytes | None:
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None
