"""The bundled hook sets, each run for real; ssh and ipmitool are stand-ins on the path (`providers#hook-sets`)."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pytest

from bigfleet.aio.clock import SystemClock
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.machine import MachineState as S
from bigfleet.model.machine import Shape
from bigfleet.obs.logs import build_logger
from bigfleet.provider.contract import KIND_OF_TRANSITIONAL
from bigfleet.provider.hook.bundled import BUNDLED
from bigfleet.provider.hook.core.inventory import HookKind
from bigfleet.provider.hook.core.protocol import HookMachine, HookRequest
from bigfleet.provider.hook.processes import SystemProcesses
from bigfleet.provider.hook.provider import HookProvider
from bigfleet.provider.hook.sources import InventorySource
from bigfleet.provider.kit.core.values import MachineRecord
from bigfleet.provider.kit.limits import Limits
from bigfleet.provider.kit.raw_client import RawProviderClient
from bigfleet.provider.kit.store import Volatile
from bigfleet.transport.grpc_net import GrpcNet

pytestmark = pytest.mark.integration

CLOCK = SystemClock()
DEADLINE_S = 30.0
PATH = "/usr/local/bin:/usr/bin:/bin"
FOLDER = Path(BUNDLED["ssh"][HookKind.PROBE]).parents[1]


def run(
    set_name: str,
    kind: HookKind,
    environment: Mapping[str, str],
    *,
    ref: str = "host-1",
    grace_s: int = 0,
    attempt: int = 1,
    operation_id: str = "op-1",
    variables: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run one hook of a set as the provider would."""
    subject = HookMachine(id="m-1", ref=ref, shape=Shape(), vars=FrozenMap(variables or {}))
    words = HookRequest(
        kind=kind, operation_id=operation_id, subject=subject, grace_seconds=grace_s, attempt=attempt
    )
    return subprocess.run(
        [BUNDLED[set_name][kind], *words.arguments],
        input=words.encode().decode(),
        env={"PATH": PATH, **environment},
        start_new_session=True,  # as the provider starts them: a hook leads its own process group
        text=True,
        capture_output=True,
        check=False,
        timeout=DEADLINE_S,
    )


@pytest.mark.parametrize("name", sorted(BUNDLED))
def test_a_set_is_complete_executable_and_under_eighty_lines(name: str) -> None:
    files = sorted((FOLDER / name).iterdir())
    lines = sum(len(path.read_text().splitlines()) for path in files)
    assert lines < 80
    kinds = {HookKind(path.name) for path in files if path.name not in ("common", "machine")}
    assert kinds == set(BUNDLED[name])
    for path in files:
        text = path.read_text()
        if path.name != "common":
            assert text.startswith("#!/bin/sh\n# ")
            assert os.access(path, os.X_OK)
        checked = subprocess.run(["sh", "-n", str(path)], capture_output=True, check=False)
        assert (checked.returncode, checked.stderr) == (0, b"")
    assert {path.name for path in (FOLDER).iterdir() if path.is_dir()} == set(BUNDLED)


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name in sorted(BUNDLED) for kind in BUNDLED[name]]
)
def test_a_dry_run_of_a_bundled_hook_changes_nothing_and_ends_well(
    name: str, kind: HookKind, tmp_path: Path
) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("ssh", "ipmitool"):
        (tools / tool).write_text(f"#!/bin/sh\ntouch {tmp_path}/called\n")
        (tools / tool).chmod(0o755)
    environment = {"PATH": f"{tools}:{PATH}", "BF_DRY_RUN": "1", "HOME": str(tmp_path)}
    ended = run(name, kind, environment, variables={"bmc": "10.0.0.1"})
    assert (ended.returncode, ended.stderr) == (0, "")
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]


# The process set, under a real provider.

INVENTORY = """
name: laptop
hook_set: process
machines:
  - {{id: p/1, instance_type: proc, zone: here, capacity_type: on-demand, price_per_hour: 0.01, vars: {{dir: {dir}}}}}
"""


class Laptop:
    """A provider on real processes."""

    def __init__(self, folder: Path) -> None:
        (folder / "inventory.yaml").write_text(INVENTORY.format(dir=folder / "machines"))
        source = InventorySource(SystemDisk(), [folder / "inventory.yaml"], BUNDLED)
        source.load()
        self.provider = HookProvider(
            source,
            SystemProcesses(CLOCK, kill_after_s=1),
            environ={"PATH": PATH},
            disk=SystemDisk(),
            clock=CLOCK,
            log=build_logger(level="info", form="json", stream=StringIO(), now=lambda: datetime.now(UTC)),
            blob_directory=str(folder / "blobs"),
            store=Volatile(),
            limits=Limits(ready_poll=0.1, configure=20, refresh=0),
        )

    async def settled(self, machine_id: str) -> MachineRecord:
        async with asyncio.timeout(DEADLINE_S):
            while True:
                machine = self.provider.kit.machine(machine_id)
                assert machine is not None
                if machine.state not in KIND_OF_TRANSITIONAL:
                    return machine
                await CLOCK.sleep(0.02)


@pytest.mark.rule("providers#hook-sets")
def test_the_process_set_walks_a_machine_from_slot_to_ready_and_back(tmp_path: Path) -> None:
    home = tmp_path / "machines" / "p_1"

    async def scenario() -> None:
        laptop = Laptop(tmp_path)
        await laptop.provider.start()
        server = await laptop.provider.kit.listen("127.0.0.1:0")
        channel = GrpcNet().dial(f"127.0.0.1:{server.port}")
        client = RawProviderClient(channel)
        try:
            await client.create("p/1")
            created = await laptop.settled("p/1")
            assert (created.state, created.host) == (
                S.IDLE,
                f"process-{(home / 'pid').read_text().strip()}",
            )
            blob = f"echo joined >{tmp_path}/joined; sleep 1000 & echo $! >{tmp_path}/kubelet\n"
            await client.configure("p/1", "prod", blob=blob.encode())
            assert (await laptop.settled("p/1")).state is S.CONFIGURED
            assert (tmp_path / "joined").read_text() == "joined\n"
            assert (tmp_path / "blobs").is_dir()
            assert not list((tmp_path / "blobs").iterdir())
            await client.drain("p/1")
            assert (await laptop.settled("p/1")).state is S.IDLE
            kubelet = (tmp_path / "kubelet").read_text().strip()
            async with asyncio.timeout(DEADLINE_S):
                while "sleep" in _command_line(kubelet):
                    await CLOCK.sleep(0.02)
            await client.configure("p/1", "prod", blob=b"exit 7\n")
            failed = await laptop.settled("p/1")
            assert failed.state is S.FAILED
            assert failed.last_error.startswith("configure failed: the blob failed; see ")
            await laptop.provider.kit.repair("p/1", S.IDLE, "test")
            await client.delete("p/1")
            assert (await laptop.settled("p/1")).state is S.SPECULATIVE
            assert not home.exists()
        finally:
            await channel.close()
            await laptop.provider.stop(0)
            run(
                "process",
                HookKind.DELETE,
                {"HOME": str(tmp_path)},
                variables={"dir": str(tmp_path / "machines")},
            )

    asyncio.run(scenario())


def _command_line(process_id: str) -> str:
    try:
        return Path(f"/proc/{process_id}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def test_the_probe_of_the_process_set_notices_that_the_process_is_gone(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path)}
    first = run("process", HookKind.CREATE, environment)
    again = run("process", HookKind.CREATE, environment)
    try:
        assert first.returncode == 0
        assert first.stdout == again.stdout  # repeated with the same operation, it starts nothing new
        assert run("process", HookKind.PROBE, environment).returncode == 0
    finally:
        assert run("process", HookKind.DELETE, environment).returncode == 0
    assert run("process", HookKind.DELETE, environment).returncode == 0
    gone = run("process", HookKind.PROBE, environment)
    assert (gone.returncode, gone.stderr) == (1, "the process is gone\n")


def test_a_resumed_configure_of_the_process_set_knows_whether_it_had_got_through(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path)}
    blob = tmp_path / "blob"
    blob.write_text("true\n")
    run("process", HookKind.CREATE, environment)
    try:
        lost = run("process", HookKind.CONFIGURE, environment)
        assert (lost.returncode, lost.stderr) == (1, "interrupted before the blob was handed over\n")
        assert run("process", HookKind.CONFIGURE, {**environment, "BF_BLOB_FILE": str(blob)}).returncode == 0
        assert run("process", HookKind.CONFIGURE, environment).returncode == 0
    finally:
        run("process", HookKind.DELETE, environment)


# The ssh set, with an ssh that runs its command here.

FAKE_SSH = """#!/bin/sh
printf '%s ' "$@" | tr '\\n' ' ' >>{folder}/ssh.log; echo >>{folder}/ssh.log
if [ -e {folder}/down ]; then exit 255; fi
while [ "$1" != -- ]; do shift; done
shift 2
exec sh -c "$*"
"""
FAKE_SYSTEMCTL = "#!/bin/sh\necho systemctl $* >>{folder}/host.log\n"


@pytest.fixture
def ssh(tmp_path: Path) -> dict[str, str]:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, text in {"ssh": FAKE_SSH, "systemctl": FAKE_SYSTEMCTL}.items():
        (tools / name).write_text(text.format(folder=tmp_path))
        (tools / name).chmod(0o755)
    (tmp_path / "blob").write_text(f"echo ran >>{tmp_path}/host.log\n")
    return {"PATH": f"{tools}:{PATH}", "BF_BLOB_FILE": str(tmp_path / "blob")}


def test_the_ssh_set_runs_the_blob_once_per_operation(ssh: dict[str, str], tmp_path: Path) -> None:
    remote = str(tmp_path / "remote")
    for _ in range(2):
        ended = run(
            "ssh",
            HookKind.CONFIGURE,
            ssh,
            ref="10.0.0.7",
            variables={"dir": remote, "user": "ops", "port": "2222"},
        )
        assert (ended.returncode, ended.stderr) == (0, "")
    assert (tmp_path / "host.log").read_text() == "ran\n"
    assert [path.name for path in Path(remote).iterdir()] == ["configured-op-1"]
    reported = (tmp_path / "ssh.log").read_text().splitlines()[0]
    assert reported.startswith("-o BatchMode=yes -o ConnectTimeout=10 -l ops -p 2222 -- 10.0.0.7 ")
    run("ssh", HookKind.CONFIGURE, ssh, operation_id="op-2", variables={"dir": remote})
    assert (tmp_path / "host.log").read_text() == "ran\nran\n"


def test_a_blob_that_fails_over_ssh_fails_with_its_own_exit_code(ssh: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "blob").write_text("echo no kubeadm >&2; exit 4\n")
    ended = run("ssh", HookKind.CONFIGURE, ssh, variables={"dir": str(tmp_path / "remote")})
    assert (ended.returncode, ended.stderr) == (4, "no kubeadm\n")
    assert list((tmp_path / "remote").iterdir()) == []


def test_a_resumed_configure_over_ssh_without_its_stamp_fails(ssh: dict[str, str], tmp_path: Path) -> None:
    without_blob = {"PATH": ssh["PATH"]}
    ended = run("ssh", HookKind.CONFIGURE, without_blob, variables={"dir": str(tmp_path / "remote")})
    assert (ended.returncode, "there is no blob" in ended.stderr) == (1, True)
    # While the first run goes on, which outlives the provider, it is waited for.
    (tmp_path / "remote" / "started-op-1").touch()
    ended = run("ssh", HookKind.CONFIGURE, without_blob, variables={"dir": str(tmp_path / "remote")})
    assert (ended.returncode, ended.stderr) == (75, "the first run has not finished\n")


@pytest.mark.parametrize("kind", [HookKind.CONFIGURE, HookKind.DRAIN, HookKind.PROBE])
def test_a_host_that_ssh_cannot_reach_is_worth_another_attempt(
    ssh: dict[str, str], tmp_path: Path, kind: HookKind
) -> None:
    (tmp_path / "down").touch()
    ended = run("ssh", kind, ssh, ref="10.0.0.7", variables={"dir": str(tmp_path / "remote")})
    assert (ended.returncode, ended.stderr) == (75, "10.0.0.7 cannot be reached\n")


def test_the_drain_of_the_ssh_set_stops_the_kubelet_resets_and_forgets_the_stamp(
    ssh: dict[str, str], tmp_path: Path
) -> None:
    remote = tmp_path / "remote"
    run("ssh", HookKind.CONFIGURE, ssh, variables={"dir": str(remote)})
    (remote / "reset").write_text(f"#!/bin/sh\necho reset >>{tmp_path}/host.log\n")
    (remote / "reset").chmod(0o755)
    ended = run("ssh", HookKind.DRAIN, ssh, grace_s=30, variables={"dir": str(remote)})
    assert (ended.returncode, ended.stderr) == (0, "")
    assert (tmp_path / "host.log").read_text() == "ran\nsystemctl stop kubelet\nreset\n"
    assert [path.name for path in remote.iterdir()] == ["reset"]
    assert "grace='30'" in (tmp_path / "ssh.log").read_text()


def test_a_quote_in_the_remote_directory_is_refused(ssh: dict[str, str]) -> None:
    ended = run("ssh", HookKind.PROBE, ssh, variables={"dir": "/x'; id; '"})
    assert (ended.returncode, ended.stderr) == (78, "the variable dir has a quote in it\n")


# The ipmi set, with a controller that keeps its state in a file.

FAKE_IPMITOOL = """#!/bin/sh
echo "$*" >>{folder}/tool.log
if [ -e {folder}/busy ]; then exit 1; fi
for command; do :; done
case $command in
  status) echo "Chassis Power is $(cat {folder}/power)" ;;
  on) echo on >{folder}/power ;;
  soft) if [ -e {folder}/heeds ]; then echo off >{folder}/power; fi ;;
  off) echo off >{folder}/power ;;
esac
"""


@pytest.fixture
def ipmi(tmp_path: Path) -> dict[str, str]:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "ipmitool").write_text(FAKE_IPMITOOL.format(folder=tmp_path))
    (tools / "ipmitool").chmod(0o755)
    (tmp_path / "power").write_text("off\n")
    (tmp_path / "password").write_text("s3cret\n")
    return {"PATH": f"{tools}:{PATH}"}


def test_the_ipmi_set_powers_a_host_on_and_off(ipmi: dict[str, str], tmp_path: Path) -> None:
    variables = {"bmc": "10.8.0.1", "bmc_user": "ops", "bmc_password_file": str(tmp_path / "password")}
    assert run("ipmi", HookKind.CREATE, ipmi, variables=variables).returncode == 75
    assert run("ipmi", HookKind.CREATE, ipmi, variables=variables).returncode == 0
    assert run("ipmi", HookKind.PROBE, ipmi, variables=variables).returncode == 0
    (tmp_path / "heeds").touch()
    assert run("ipmi", HookKind.DELETE, ipmi, variables=variables).returncode == 75
    assert run("ipmi", HookKind.DELETE, ipmi, variables=variables).returncode == 0
    off = run("ipmi", HookKind.PROBE, ipmi, variables=variables)
    assert (off.returncode, off.stderr) == (1, "10.8.0.1 is off\n")
    reported = (tmp_path / "tool.log").read_text()
    assert f"-I lanplus -H 10.8.0.1 -U ops -f {tmp_path}/password chassis power on" in reported
    assert "s3cret" not in reported


def test_a_host_that_does_not_heed_is_forced_off_at_the_fourth_attempt(
    ipmi: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "power").write_text("on\n")
    codes = [
        run("ipmi", HookKind.DELETE, ipmi, attempt=attempt, variables={"bmc": "b"}).returncode
        for attempt in range(1, 6)
    ]
    assert codes == [75, 75, 75, 75, 0]
    commands = [line.split()[-1] for line in (tmp_path / "tool.log").read_text().splitlines()]
    assert [command for command in commands if command != "status"] == ["soft", "soft", "soft", "off"]


@pytest.mark.parametrize("kind", [HookKind.CREATE, HookKind.DELETE, HookKind.PROBE])
def test_a_controller_that_does_not_answer_is_worth_another_attempt(
    ipmi: dict[str, str], tmp_path: Path, kind: HookKind
) -> None:
    (tmp_path / "busy").touch()
    ended = run("ipmi", kind, ipmi, variables={"bmc": "10.8.0.1"})
    assert (ended.returncode, ended.stderr) == (75, "10.8.0.1 does not answer\n")


def test_an_ipmi_machine_without_its_variable_or_its_tool_is_a_configuration_error(
    ipmi: dict[str, str], tmp_path: Path
) -> None:
    assert run("ipmi", HookKind.CREATE, ipmi).returncode == 78
    assert run("ipmi", HookKind.CREATE, ipmi, variables={"bmc": "b", "tool": "no-such-tool"}).returncode == 78
    assert (
        run(
            "ipmi", HookKind.CREATE, ipmi, variables={"bmc": "b", "bmc_password_file": "/no/such/file"}
        ).returncode
        == 78
    )


def test_the_hooks_keep_to_posix_where_dash_is_there(tmp_path: Path) -> None:
    if shutil.which("dash") is None:
        pytest.skip("there is no dash on the path to read the scripts strictly")
    for path in FOLDER.rglob("*"):
        if path.is_file():
            subprocess.run(["dash", "-n", str(path)], check=True)
