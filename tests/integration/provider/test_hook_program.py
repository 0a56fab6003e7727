"""`bigfleet-hook-provider` as a process: its check, its refusals, reloads by signal, its end, and what survives it."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from bigfleet.aio.clock import SystemClock
from bigfleet.app import hook_provider
from bigfleet.provider.kit.raw_client import RawProviderClient
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.v1alpha1 import provider_pb2 as pb
from tests.support.program import DEADLINE_S, ROOT, RunningProgram

pytestmark = pytest.mark.integration

CLOCK = SystemClock()


class Site:
    """A folder with an inventory and one script for every hook."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "inventory.yaml"
        self.hook('echo "$1 $2" >>calls')
        self.machines("m-1")

    def hook(self, body: str) -> None:
        path = self.folder / "hook.new"
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        path.rename(self.folder / "hook")

    def machines(self, *ids: str) -> None:
        lines = "".join(
            f"  - {{id: {name}, ref: h-{name}, instance_type: a, zone: z, capacity_type: bare-metal}}\n"
            for name in ids
        )
        text = f"name: site\nhooks: {{configure: ./hook, drain: ./hook}}\nmachines:\n{lines}"
        (self.folder / "new").write_text(text)
        (self.folder / "new").rename(self.file)

    def is_clean(self) -> None:
        """Check that neither the hook that wrote its number nor a blob is left."""
        number = (self.folder / "pid").read_text().strip()
        assert not Path(f"/proc/{number}").exists()
        assert not list((self.folder / "state" / "blobs").iterdir())

    @contextlib.contextmanager
    def running(self, *flags: str, state: str = "") -> Iterator["Running"]:
        usual = ("--addr", "127.0.0.1:0", "--metrics-addr", "127.0.0.1:0", "--log-format", "json")
        with RunningProgram(
            "bigfleet-hook-provider",
            *("--inventory", str(self.file), "--state", state or str(self.folder / "state")),
            *("--watch-interval", "1h", *usual, *flags),
        ) as process:
            yield Running(process)


class Running:
    """One process, seen through its log and its ports."""

    def __init__(self, process: RunningProgram) -> None:
        self.process = process

    async def event(self, name: str) -> dict[str, object]:
        """Wait for the last line of a kind in the log."""
        return await asyncio.to_thread(
            self.process.wait, name, lambda: dict((self.process.lines(name) or [{}])[-1])
        )

    async def settled(self, client: RawProviderClient, machine_id: str) -> pb.Machine:
        stable = (pb.MACHINE_STATE_IDLE, pb.MACHINE_STATE_CONFIGURED, pb.MACHINE_STATE_FAILED)
        async with asyncio.timeout(DEADLINE_S):
            while True:
                machine = await client.get(machine_id)
                if machine.state in stable:
                    return machine
                await CLOCK.sleep(0.02)

    async def ended(self) -> int:
        return await asyncio.to_thread(self.process.ended)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_process_serves_reloads_on_sighup_keeps_its_bindings_and_ends_with_0(site: Site) -> None:
    async def first() -> None:
        with site.running() as running:
            ports = await running.event("listening")
            channel = GrpcNet().dial(f"127.0.0.1:{ports['port']}")
            client = RawProviderClient(channel)
            try:
                await client.configure("m-1", "prod", blob=b"join", metadata={"k": "v"})
                assert (await running.settled(client, "m-1")).state == pb.MACHINE_STATE_CONFIGURED
                url = f"http://127.0.0.1:{ports['metrics_port']}"
                assert await asyncio.to_thread(_status, f"{url}/readyz") == 200
                site.file.write_text("nonsense: true\n")
                running.process.send(signal.SIGHUP)
                assert "nonsense: unknown key" in str((await running.event("inventory_refused"))["faults"])
                site.machines("m-1", "m-2")
                running.process.send(signal.SIGHUP)
                await running.event("inventory_loaded")
                assert (await running.settled(client, "m-2")).state == pb.MACHINE_STATE_IDLE
                site.hook("echo $$ >pid; sleep 1000")
                await client.configure("m-2", "prod")
                async with asyncio.timeout(DEADLINE_S):
                    while not (site.folder / "pid").exists() or not (site.folder / "pid").read_text().strip():
                        await CLOCK.sleep(0.02)
                running.process.send(signal.SIGTERM)
                assert await running.ended() == 0
                # The hook went with the provider, in good order.
                site.is_clean()
            finally:
                await channel.close()

    async def second() -> None:
        with site.running() as running:
            ports = await running.event("listening")
            channel = GrpcNet().dial(f"127.0.0.1:{ports['port']}")
            client = RawProviderClient(channel)
            try:
                bound = await client.get("m-1")
                assert (bound.state, bound.cluster, dict(bound.shard_metadata)) == (
                    pb.MACHINE_STATE_CONFIGURED,
                    "prod",
                    {"k": "v"},
                )
                resumed = await running.settled(client, "m-2")
                assert (resumed.state, resumed.last_error) == (
                    pb.MACHINE_STATE_FAILED,
                    "configure failed: no blob",
                )
                repaired = await asyncio.create_subprocess_exec(
                    *(sys.executable, "cmd/bigfleet", "provider-admin", "repair", "m-2", "--to", "idle"),
                    *("--socket", str(site.folder / "state" / "admin.sock")),
                    cwd=ROOT,
                    env={**os.environ, "PYTHONPATH": str(ROOT)},
                    stdout=subprocess.DEVNULL,
                )
                assert await repaired.wait() == 0
                assert (await client.get("m-2")).state == pb.MACHINE_STATE_IDLE
            finally:
                await channel.close()

    asyncio.run(first())
    site.hook('test -n "$BF_BLOB_FILE" || { echo no blob >&2; exit 1; }')
    asyncio.run(second())


def _status(url: str) -> int:
    with urllib.request.urlopen(url, timeout=DEADLINE_S) as answer:  # noqa: S310  our own loopback port
        return int(answer.status)


def test_a_relative_state_directory_does_not_lead_a_hook_astray(tmp_path: Path) -> None:
    """A hook begins in its own directory, so the path of its blob must mean the same there."""
    site = Site(tmp_path)
    site.hook('case $1 in configure) cat "$BF_BLOB_FILE" >>blob ;; esac')

    relative = os.path.relpath(site.folder / "state", ROOT)

    async def scenario() -> None:
        with site.running(state=relative) as process:
            listening = await process.event("listening")
            client = RawProviderClient(GrpcNet().dial(f"127.0.0.1:{listening['port']}"))
            await client.configure("m-1", "prod", blob=b"join here")
            machine = await process.settled(client, "m-1")
            assert (machine.state, machine.last_error) == (pb.MACHINE_STATE_CONFIGURED, "")

    asyncio.run(scenario())
    assert (site.folder / "blob").read_text() == "join here"


def test_a_taken_port_ends_the_process_with_1_and_one_line(site: Site) -> None:
    async def scenario() -> tuple[int, str]:
        server = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "cmd/bigfleet-hook-provider", "--inventory", str(site.file)),
                *("--state", "memory", "--log-level", "error", "--metrics-addr", "0"),
                *("--addr", f"127.0.0.1:{port}"),
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stderr=subprocess.PIPE,
            )
            _, errors = await process.communicate()
            return process.returncode or 0, errors.decode()

    code, errors = asyncio.run(scenario())
    assert code == 1
    # The gRPC library has a line of its own to say first.
    line = errors.splitlines()[-1]
    assert line.startswith("bigfleet-hook-provider: ")
    assert "in use" in line
    assert "Traceback" not in errors


def test_the_check_prints_a_table_and_runs_every_hook_dry(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.hook('test "$BF_DRY_RUN" = 1 || exit 3; echo "would $1" >&2')
    assert hook_provider.main(["--inventory", str(site.file), "--check"]) == 0
    shown = capsys.readouterr()
    header, *rows = shown.out.splitlines()
    assert header.split() == ["HOOK", "FILE", "MACHINE", "RESULT", "DETAIL"]
    hook = str(site.folder / "hook")
    assert [row.split() for row in rows[:2]] == [
        ["configure", hook, "m-1", "ok", "would", "configure"],
        ["drain", hook, "m-1", "ok", "would", "drain"],
    ]
    assert rows[-1] == "1 machine, free-pool, beginning Idle"
    assert "warning: there is neither a ready hook nor a kubeconfig" in shown.err


def test_the_check_fails_with_1_when_a_hook_fails(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.hook('if [ "$1" = drain ]; then echo "no systemctl" >&2; exit 78; fi')
    assert hook_provider.main(["--inventory", str(site.file), "--check", "-o", "json"]) == 1
    shown = capsys.readouterr()
    rows = {row["hook"]: (row["result"], row["detail"]) for row in json.loads(shown.out)["hooks"]}
    assert rows == {"configure": ("ok", None), "drain": ("configuration error (78)", "no systemctl")}
    assert shown.err.splitlines()[-1] == "bigfleet-hook-provider: 1 of 2 hooks failed: drain"


def test_the_check_also_tries_a_discover_hook_and_the_machines_it_finds(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = {"id": "d-1", "ref": "h", "instance_type": "a", "zone": "z", "capacity_type": "spot"}
    site.file.write_text("hooks: {configure: ./hook, drain: ./hook, probe: ./hook, discover: ./hook}\n")
    good = json.dumps({"machines": [{**machine, "interruption_probability": 0.1}]})
    site.hook(f"case $1 in discover) echo '{good}' ;; probe) exit 100 ;; esac")
    assert hook_provider.main(["--inventory", str(site.file), "--check"]) == 0
    assert "discover  " in (shown := capsys.readouterr().out)
    assert "not yet (100)" in shown
    assert "1 machine, free-pool" in shown
    site.hook(f"case $1 in discover) echo '{json.dumps({'machines': [machine]})}' ;; esac")
    assert hook_provider.main(["--inventory", str(site.file), "--check"]) == 1
    assert "interruption_probability" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "fault"),
    [
        ([], "--inventory: missing"),
        (["--inventory", ""], "--inventory: found nothing"),
        (["--inventory", "{file}"], "--state: missing, allowed is a directory, or the word memory"),
        (["--inventory", "{folder}/none.yaml", "--check"], "none.yaml: no such file or directory"),
        (["--inventory", "{folder}/empty", "--check"], "no file that ends in .yaml"),
        (
            ["--inventory", "{file}", "--state", "memory", "--tls-cert", "a"],
            "allowed is all three TLS flags or none",
        ),
        (
            ["--inventory", "{file}", "--state", "memory", "--require-shard-san"],
            "--require-shard-san: found without",
        ),
        (["--inventory", "{file}", "--parallel", "0"], "--parallel: found '0'"),
    ],
)
def test_a_wrong_call_ends_with_2_and_one_line(
    site: Site, flags: list[str], fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (site.folder / "empty").mkdir()
    given = [flag.format(file=site.file, folder=site.folder) for flag in flags]
    assert hook_provider.main(given) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("bigfleet-hook-provider: ")
    assert fault in line


def test_help_and_version_answer_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert hook_provider.main(["--help"]) == 0
    assert "--probe-interval DURATION" in capsys.readouterr().out
    assert hook_provider.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("bigfleet-hook-provider ")
