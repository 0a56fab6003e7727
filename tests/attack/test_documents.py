"""Files and documents that an attacker hands to our programs: each is refused with one line and exit code 2, soon and in
little memory; what our programs write and warn of at start (A16 to A19, A22).

Rules: `packaging#given-files`, `packaging#warnings-at-start`, `coordinator#export`.
"""

import asyncio
import gzip
import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from bigfleet.aio.identity import ADMIN, Identity
from bigfleet.transport.address import PLAINTEXT
from tests.support.certificates import Authority
from tests.support.program import ROOT, AwaitedProgram, RunningProgram, outcome, running

pytestmark = pytest.mark.integration
given_files = pytest.mark.rule("packaging#given-files")
warnings = pytest.mark.rule("packaging#warnings-at-start")

GIB: Final = 2**30
MOST_MEMORY: Final = 3 * GIB
"""Address space of a program that refuses; libraries alone map a gigabyte. Without limits each file here would need more."""
MOST_TEXT: Final = 2_000
_BOUNDED: Final = (
    "import os,resource,sys;"
    "resource.setrlimit(resource.RLIMIT_AS,(int(sys.argv[1]),)*2);"
    "os.execv(sys.executable,[sys.executable,*sys.argv[2:]])"
)
DOCUMENT: Final = json.dumps({"version": 1, "now": 1, "machines": [], "needs": []})

# Every flag and argument that names a file, with the flags without which the file would not be read.
READERS: Final[dict[str, Sequence[str]]] = {
    "settings": ("bigfleet", "shard", "--config={}"),
    "snapshot": ("bigfleet", "decide", "{}"),
    "compressed snapshot": ("bigfleet", "decide", "{}.gz"),
    "edits": ("bigfleet", "what-if", "{good}", "--edit={}"),
    "figures": ("bigfleet", "bench", "compare", "{}", "{}"),
    "scenario": ("bigfleet", "all-in-one", "--scenario={}"),
    "demand": ("bigfleet", "cluster-sim", "--cluster-id=web", "--shard-addr=127.0.0.1:1", "--demand={}"),
    "token": ("bigfleet", "dashboard", "--shard-addr=127.0.0.1:1", "--token-file={}"),
    "Raft secret": (
        *("bigfleet", "coordinator", "--id=c-0", "--replicas=3", "--bootstrap"),
        *(
            "--peers=c-0@127.0.0.1:7791@127.0.0.1:7790,c-1@127.0.0.1:7793@127.0.0.1:7792,c-2@127.0.0.1:7795@127.0.0.1:7794",
            "--raft-secret-file={}",
        ),
    ),
    "template": (
        *("bigfleet-operator", "--cluster-id=web", "--shard-addr=127.0.0.1:1"),
        "--bootstrap-template-file={}",
    ),
    "penalties": ("bigfleet-unschedulable-pod-controller", "--priority-class-defaults={}"),
    "pools": ("bigfleet-fake-provider", "--inventory={}"),
    "script": ("bigfleet-fake-provider", "--script={}"),
    "catalogue": ("bigfleet-fake-provider", "--catalog={}"),
    "hook inventory": ("bigfleet-hook-provider", "--inventory={}.yaml", "--check"),
    "backup": ("bigfleetctl", "snapshot", "inspect", "{}"),
}


def refusal(argv: Sequence[str], tmp_path: Path, file: Path, *more: str) -> str:
    """Run a program on a file, bounded in memory and time; it must say one line and end with 2."""
    good = tmp_path / "good.json"
    good.write_text(DOCUMENT)
    name = str(file)
    flags = [word.replace("{good}", str(good)).replace("{}", name) for word in argv[1:]]
    program = str(ROOT / "cmd" / argv[0])
    done = subprocess.run(
        [sys.executable, "-c", _BOUNDED, str(MOST_MEMORY), program, *flags, *more],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, ""), done.stderr[-MOST_TEXT:]
    assert done.stderr.count("\n") == 1, done.stderr[-MOST_TEXT:]
    assert len(done.stderr) < MOST_TEXT
    return done.stderr


@given_files
@pytest.mark.parametrize("reader", READERS)
def test_a_pipe_without_a_writer_holds_no_program_up(reader: str, tmp_path: Path) -> None:
    argv = READERS[reader]
    (ending,) = {
        Path(word.replace("{}", "x")).suffix for word in argv if word.endswith(("{}.gz", "{}.yaml"))
    } or {""}
    os.mkfifo(tmp_path / f"given{ending}")
    said = refusal(argv, tmp_path, tmp_path / "given")
    assert f"given{ending}: found a pipe, a socket or a device, allowed is a regular file" in said


@given_files
@pytest.mark.parametrize("reader", ["settings", "edits", "backup"])
def test_a_device_without_an_end_is_not_read(reader: str, tmp_path: Path) -> None:
    assert "/dev/zero: found a pipe, a socket or a device" in refusal(
        READERS[reader], tmp_path, Path("/dev/zero")
    )


@given_files
@pytest.mark.parametrize("reader", ["settings", "snapshot", "pools"])
def test_a_file_of_ten_gigabytes_is_refused_by_its_size(reader: str, tmp_path: Path) -> None:
    file = tmp_path / "given"
    with file.open("wb") as huge:
        huge.truncate(10 * GIB)  # holes, which take no room on the disk
    said = refusal(READERS[reader], tmp_path, file)
    assert f"given: found {10 * GIB} bytes, allowed is at most " in said


@given_files
def test_a_compressed_document_unfolds_no_further_than_allowed(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.gz"
    bomb.write_bytes(gzip.compress(bytes(2**24)) * 300)  # 5 MB that stand for 5 GB
    argv = ("bigfleet", "decide", "{}")
    assert "bomb.gz, decompressed: found more, allowed is at most 512 MiB" in refusal(argv, tmp_path, bomb)
    assert "allowed is at most 1 MiB" in refusal(argv, tmp_path, bomb, "--max-document=1MiB")


@given_files
def test_endless_standard_input_is_read_no_further_than_allowed(tmp_path: Path) -> None:
    with subprocess.Popen(["cat", "/dev/zero"], stdout=subprocess.PIPE) as endless:
        done = subprocess.run(
            [sys.executable, str(ROOT / "cmd" / "bigfleet"), "decide", "-", "--max-document=8MiB"],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=endless.stdout,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        endless.kill()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "bigfleet: standard input: found more, allowed is at most 8 MiB\n"


# Every command that replaces a file that a person names, with the name of the file within what the argument names.
WRITERS: Final[dict[str, tuple[str, Sequence[str]]]] = {
    "FILE": ("", ("bigfleetctl", "snapshot", "save", "{}", "--coordinator=127.0.0.1:1")),
    "FILE of extract": ("", ("bigfleetctl", "snapshot", "extract", "--data-dir=here", "{}")),
    "--out": ("report.html", ("bigfleet", "conformance", "--target=127.0.0.1:1", "--yes", "--out={}")),
}


@given_files
@pytest.mark.parametrize("kind", ["pipe", "socket", "directory"])
@pytest.mark.parametrize("writer", WRITERS)
def test_a_command_replaces_nothing_but_a_regular_file(writer: str, kind: str, tmp_path: Path) -> None:
    """Run as root, `snapshot save` would have replaced a device for every program of the host."""
    name, argv = WRITERS[writer]
    given = tmp_path / "given"
    if name:
        given.mkdir()
    target = given / name
    with socket.socket(socket.AF_UNIX) as listening:
        make = {"pipe": os.mkfifo, "socket": lambda path: listening.bind(str(path)), "directory": os.mkdir}
        make[kind](target)
        before = os.lstat(target)
        said = refusal(argv, tmp_path, given)
        assert os.lstat(target) == before
    found = "a directory" if kind == "directory" else "a pipe, a socket or a device"
    place = f"{writer.split(maxsplit=1)[0]}: {target}"
    assert f"{place}: found {found}, allowed is a regular file, which is replaced, or a new name" in said


def aliases() -> bytes:
    """Nine levels, each ten times the one before: a gigabyte when written out."""
    levels = [b"a0: &a0 [" + b",".join([b"x" * 40] * 10) + b"]"]
    levels += [b"a%d: &a%d [%s]" % (n, n, b",".join([b"*a%d" % (n - 1)] * 10)) for n in range(1, 9)]
    return b"\n".join(levels) + b"\n"


HOSTILE: Final[dict[str, tuple[Callable[[], bytes], str]]] = {
    "aliases": (aliases, "line 2, column 10: an alias"),
    "brackets": (lambda: b"a: " + b"[" * 100_000, "nested more than 100 levels deep"),
    "ninety thousand keys": (
        lambda: b"".join(b"k%d: 1\n" % n for n in range(90_000)) + b"k0: 1\n",
        "key k0 is given twice",
    ),
    "a tag that names code": (lambda: b"a: !!python/object/apply:os.system [id]", "a tag ("),
    "a number of a hundred thousand digits": (lambda: b"a: " + b"9" * 100_000, "a number of 100000 digits"),
    "a date that is none": (lambda: b"2001-99-99: 1", "2001-99-99"),
    "a key of half a megabyte": (lambda: b"? " + b"k" * 500_000 + b"\n: 1", "kkkk"),
}
ALSO_IN_INVENTORIES: Final = ("aliases", "ninety thousand keys")  # they share the reader; two show that


@given_files
@pytest.mark.parametrize("attack", HOSTILE)
def test_hostile_yaml_is_refused_with_its_place_by_settings_and_inventory(
    attack: str, tmp_path: Path
) -> None:
    content, said = HOSTILE[attack]
    file = tmp_path / "given.yaml"
    file.write_bytes(content())
    assert said in refusal(("bigfleet", "shard", "--config={}"), tmp_path, file)
    if attack in ALSO_IN_INVENTORIES:
        assert said in refusal(("bigfleet-hook-provider", "--inventory={}", "--check"), tmp_path, file)


@given_files
def test_an_archive_of_holes_is_refused(tmp_path: Path) -> None:
    header = bytearray(512)
    header[:9], header[124:136], header[156:157] = b"meta.json", b"\x80" + b"\xff" * 11, b"0"
    header[148:156] = b"%06o\0 " % (sum(header) + 8 * ord(" "))
    file = tmp_path / "backup.tar"
    file.write_bytes(bytes(header))

    async def ask() -> tuple[int, str]:
        return await outcome("bigfleetctl", "snapshot", "inspect", str(file))

    code, said = asyncio.run(ask())
    assert code == 8
    assert "Traceback" not in said


# Warnings at start, and modes.


def tls(tmp_path: Path, identity: Identity, mode: int = 0o600) -> tuple[str, ...]:
    files = Authority(tmp_path / "pki", datetime.now(UTC)).issue(identity, "it")
    files.key.chmod(mode)
    return (f"--tls-cert={files.cert}", f"--tls-key={files.key}", f"--tls-ca={files.ca}")


FREE: Final = ("--metrics-addr=127.0.0.1:0", "--log-format=json")
SERVING: Final[dict[str, Sequence[str]]] = {
    "shard": ("bigfleet", "shard", "--listen=:0", "--data-dir={}/data", *FREE),
    "coordinator": (
        *("bigfleet", "coordinator", "--id=c-0", "--bootstrap", "--raft-bind=127.0.0.1:0"),
        *("--listen=:0", "--data-dir={}/data", *FREE),
    ),
    "fake provider": ("bigfleet-fake-provider", "--addr=:0", *FREE),
    "fault provider": ("bigfleet-fault-provider", "--addr=:0", *FREE),
    "hook provider": (
        *("bigfleet-hook-provider", "--addr=:0", "--inventory={}/inventory.yaml", "--state={}/data"),
        *FREE,
    ),
}
INVENTORY: Final = "hooks: {configure: ./hook, drain: ./hook}\nmachines:\n- {id: m, ref: h, instance_type: g, zone: z, capacity_type: bare-metal, resources: {cpu: '1'}}\n"


def flags_of(program: str, tmp_path: Path) -> list[str]:
    (tmp_path / "inventory.yaml").write_text(INVENTORY)
    (tmp_path / "hook").write_text("#!/bin/sh\n")
    (tmp_path / "hook").chmod(0o700)
    return [word.replace("{}", str(tmp_path)) for word in SERVING[program]]


async def warned(flags: Sequence[str], event: str) -> list[dict[str, object]]:
    """Start a program until it listens; return what it warned of by then."""
    async with running(*flags) as program:
        return program.lines(event)


@warnings
@pytest.mark.parametrize("program", SERVING)
def test_a_port_that_others_reach_without_tls_is_warned_of(program: str, tmp_path: Path) -> None:
    (line,) = asyncio.run(warned(flags_of(program, tmp_path), "plaintext"))
    assert line["level"] == "warning"
    assert PLAINTEXT in str(line["what"]) or program == "coordinator"


@warnings
def test_a_dashboard_and_a_fleet_in_one_process_warn_too() -> None:
    page = ("--allow-remote", "--listen=:0", "--shard-addr=127.0.0.1:1", "--log-format=json")
    with RunningProgram("bigfleet", "dashboard", *page) as dashboard:
        (line,) = dashboard.wait("it warns", lambda: dashboard.lines("plaintext"))
        assert "unencrypted" in line["what"]
    local = [f"--{part}=127.0.0.1:0" for part in ("coordinator-listen", "raft-bind", "dashboard-addr")]
    with RunningProgram("bigfleet", "all-in-one", "--shard-listen=:0", *local) as fleet:
        wanted = f"bigfleet: warning: :0: {PLAINTEXT}\n"
        assert fleet.wait("it warns", lambda: wanted in fleet.text())


@warnings
@pytest.mark.parametrize("program", ["shard", "fake provider"])
def test_neither_loopback_nor_tls_is_warned_of_but_an_open_key_is(program: str, tmp_path: Path) -> None:
    flags = flags_of(program, tmp_path)

    async def story() -> None:
        local = [flag.replace("=:0", "=127.0.0.1:0") for flag in flags]
        async with running(*local) as plain:
            assert plain.lines("plaintext") == []
        open_key = tls(tmp_path, Identity.shard("shard-0"), mode=0o644)
        async with running(*flags, *open_key) as secured:
            assert secured.lines("plaintext") == []
            (line,) = secured.lines("secret_open_to_others")
            assert (line["level"], "mode 0644" in str(line["file"])) == ("warning", True)

    asyncio.run(story())


@warnings
def test_an_open_raft_secret_and_key_of_a_coordinator_are_named(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(os.urandom(32))
    secret.chmod(0o604)
    flags = [*flags_of("coordinator", tmp_path), f"--raft-secret-file={secret}", *tls(tmp_path, ADMIN, 0o640)]
    (line,) = asyncio.run(warned(flags, "secret_open_to_others"))
    assert str(line["file"]).startswith(f"{secret}: found mode 0604")


@pytest.mark.rule("coordinator#export")
def test_exports_are_for_the_coordinators_own_user(tmp_path: Path) -> None:
    exports = tmp_path / "exports"
    flags = [
        *flags_of("coordinator", tmp_path),
        f"--snapshot-export-dir={exports}",
        "--snapshot-export-interval=1s",
    ]

    async def story() -> None:
        coordinator = await AwaitedProgram.start(*flags)
        try:
            await coordinator.until(lambda: bool(coordinator.lines("snapshot_exported")))
        finally:
            coordinator.running.kill()

    before = os.umask(0)
    try:
        asyncio.run(story())
    finally:
        os.umask(before)
    modes = {
        path.relative_to(exports).name: stat.S_IMODE(path.stat().st_mode)
        for path in exports.rglob("*")
        if not path.is_symlink()
    }
    assert stat.S_IMODE(exports.stat().st_mode) == 0o700
    assert {mode for name, mode in modes.items() if "." in name or name == "state"} == {0o600}
    assert {mode for name, mode in modes.items() if "-" in name} == {0o700}
