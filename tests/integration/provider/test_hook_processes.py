"""Hooks as real processes: arguments, environment, ends, signals, and nothing left behind.

Rules: `providers#hook-exit-codes`, `providers#hook-protocol`.
"""

import asyncio
import contextlib
import os
import signal
from pathlib import Path

import pytest

from bigfleet.aio.clock import SystemClock
from bigfleet.provider.hook.processes import CommandResult, HookCommand, SpawnError, SystemProcesses

pytestmark = pytest.mark.integration

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C"}
DEADLINE_S = 30.0
CLOCK = SystemClock()


class Scripts:
    """Writes hooks and runs them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines: list[str] = []
        self.processes = SystemProcesses(CLOCK, kill_after_s=0.5)

    def command(self, body: str, *arguments: str, stdin: bytes = b"", keep_bytes: int = 1000) -> HookCommand:
        path = self.folder / "hook"
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return HookCommand(str(path), arguments, stdin, ENVIRONMENT, keep_bytes)

    async def run(
        self, body: str, *arguments: str, stdin: bytes = b"", keep_bytes: int = 1000
    ) -> CommandResult:
        command = self.command(body, *arguments, stdin=stdin, keep_bytes=keep_bytes)
        async with asyncio.timeout(DEADLINE_S):
            return await self.processes.run(command, self.lines.append)

    async def number(self, name: str) -> int:
        """Wait until a hook has written a number into a file."""
        path = self.folder / name
        async with asyncio.timeout(DEADLINE_S):
            while not path.exists() or not path.read_text().strip():
                await CLOCK.sleep(0.01)
        return int(path.read_text())


@pytest.fixture
def scripts(tmp_path: Path) -> Scripts:
    return Scripts(tmp_path)


def is_gone(process_id: int) -> bool:
    """Return whether a process has exited and was reaped; a zombie still exists."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process_id, 0)
        return False
    return True


def has_ended(process_id: int) -> bool:
    """Return the same of a child of a hook, which init has to reap; not every container's init does."""
    try:
        state = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state == "Z"


async def until_ended(process_id: int) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not has_ended(process_id):
            await CLOCK.sleep(0.01)


@pytest.mark.parametrize("code", [0, 1, 69, 75, 78, 100, 255])
def test_an_exit_code_arrives_as_it_is(scripts: Scripts, code: int) -> None:
    assert asyncio.run(scripts.run(f"exit {code}")).code == code


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_death_by_a_signal_is_a_negative_code(scripts: Scripts, number: signal.Signals) -> None:
    assert asyncio.run(scripts.run(f"kill -{number.value} $$")).code == -number.value


def test_arguments_input_and_environment_arrive_without_a_shell_in_between(scripts: Scripts) -> None:
    body = 'printf "%s\\n" "$#" "$1" "$2"; cat; env | sort | grep -v "^_=\\|^PWD=\\|^SHLVL=\\|^OLDPWD="'
    ended = asyncio.run(scripts.run(body, "configure", "a/b $(id) '*'", stdin=b'{"version": 1}\n'))
    assert ended.output.decode().splitlines() == [
        "2",
        "configure",
        "a/b $(id) '*'",
        '{"version": 1}',
        "LANG=C",
        "PATH=/usr/bin:/bin",
    ]


def test_a_hook_inherits_no_open_file_and_begins_in_its_own_folder(scripts: Scripts) -> None:
    held = os.open(scripts.folder, os.O_RDONLY)
    os.set_inheritable(held, True)
    try:
        ended = asyncio.run(scripts.run("pwd; ls /proc/self/fd"))
    finally:
        os.close(held)
    where, *descriptors = ended.output.decode().split()
    assert where == str(scripts.folder)
    # Input, output and errors, and the one with which ls reads the directory.
    assert len(descriptors) == 4


def test_lines_of_standard_error_are_passed_on_one_by_one_also_the_one_without_an_end(
    scripts: Scripts,
) -> None:
    asyncio.run(scripts.run('echo one >&2; echo "  two " >&2; printf three >&2'))
    assert scripts.lines == ["one", "  two ", "three"]


def test_of_a_long_output_the_end_is_kept(scripts: Scripts) -> None:
    ended = asyncio.run(
        scripts.run("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done", keep_bytes=22)
    )
    assert ended.output == b"line 19998\nline 19999\n"


def test_a_hook_that_reads_nothing_of_a_large_input_ends_all_the_same(scripts: Scripts) -> None:
    assert asyncio.run(scripts.run("exit 3", stdin=b"x" * 1_000_000)).code == 3


def test_a_child_left_behind_with_the_output_open_does_not_keep_the_hook_from_ending(
    scripts: Scripts,
) -> None:
    async def scenario() -> None:
        ended = await scripts.run(f"sleep 1000 & echo $! >{scripts.folder}/child; echo done")
        assert (ended.code, ended.output) == (0, b"done\n")
        child = await scripts.number("child")
        assert not is_gone(child)  # left behind on purpose, as by a hook that starts a daemon
        os.kill(child, signal.SIGKILL)

    asyncio.run(scenario())


@pytest.mark.rule("providers#hook-exit-codes")
def test_a_hook_ignoring_sigterm_is_killed_with_its_children_and_no_zombie_remains(scripts: Scripts) -> None:
    async def scenario() -> None:
        folder = scripts.folder
        body = f"trap '' TERM; sleep 1000 & echo $! >{folder}/child; echo $$ >{folder}/leader; wait; wait"
        task = asyncio.ensure_future(scripts.run(body))
        leader, child = await scripts.number("leader"), await scripts.number("child")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert is_gone(leader)
        await until_ended(child)

    asyncio.run(scenario())


def test_a_hook_that_heeds_sigterm_may_clean_up_first(scripts: Scripts) -> None:
    async def scenario() -> None:
        body = f"trap 'echo cleaned >{scripts.folder}/mark; exit 0' TERM; echo $$ >{scripts.folder}/leader; while :; do sleep 0.01; done"
        task = asyncio.ensure_future(scripts.run(body))
        leader = await scripts.number("leader")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (scripts.folder / "mark").read_text() == "cleaned\n"
        assert is_gone(leader)

    asyncio.run(scenario())


def test_a_child_that_ignores_sigterm_is_killed_although_its_leader_obeyed(scripts: Scripts) -> None:
    async def scenario() -> None:
        folder = scripts.folder
        inner = f"trap '' TERM; echo $$ >{folder}/child; while :; do sleep 0.01; done"
        (folder / "inner").write_text(inner)
        body = f"sh {folder}/inner & echo $$ >{folder}/leader; wait"
        task = asyncio.ensure_future(scripts.run(body))
        child = await scripts.number("child")
        await scripts.number("leader")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until_ended(child)

    asyncio.run(scenario())


def test_being_cancelled_twice_still_ends_the_hook_first(scripts: Scripts) -> None:
    async def scenario() -> None:
        body = f"trap '' TERM; echo $$ >{scripts.folder}/leader; while :; do sleep 0.01; done"
        task = asyncio.ensure_future(scripts.run(body))
        leader = await scripts.number("leader")
        task.cancel()
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert is_gone(leader)

    asyncio.run(scenario())


@pytest.mark.parametrize("fault", ["missing", "not executable", "no program"])
def test_what_cannot_be_started_is_named(scripts: Scripts, fault: str) -> None:
    path = scripts.folder / "broken"
    if fault != "missing":
        path.write_bytes(b"\x00\x01")
        path.chmod(0o644 if fault == "not executable" else 0o755)
    command = HookCommand(str(path), (), b"", ENVIRONMENT)
    with pytest.raises(SpawnError, match=str(path)):
        asyncio.run(scripts.processes.run(command, scripts.lines.append))


def test_forty_hooks_leave_neither_descriptors_nor_children(scripts: Scripts) -> None:
    async def scenario() -> None:
        command = scripts.command("echo $$")
        await scripts.processes.run(command, scripts.lines.append)
        before = len(os.listdir("/proc/self/fd"))
        ended = await asyncio.gather(
            *(scripts.processes.run(command, scripts.lines.append) for _ in range(40))
        )
        await asyncio.sleep(0)
        assert len(os.listdir("/proc/self/fd")) <= before
        assert all(is_gone(int(one.output)) for one in ended)

    asyncio.run(scenario())
