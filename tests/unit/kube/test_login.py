"""The target is found as kubectl finds it, and credentials follow their files without losing good ones."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from bigfleet.aio.disk import Disk, OpenMode, ensure_directory
from bigfleet.kube.errors import LoginError
from bigfleet.kube.kubeconfig import Material, Target
from bigfleet.kube.login import ACCOUNT, Login, find_target
from bigfleet.testing.clock import VirtualClock
from bigfleet.testing.disk.virtual_disk import MemoryDisk
from bigfleet.testing.loop import run_virtual

IN_POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def write(disk: Disk, path: str, content: str) -> None:
    ensure_directory(disk, path.rpartition("/")[0])
    with disk.open(path, OpenMode.UPDATE_OR_CREATE) as file:
        file.truncate(0)
        file.pwrite(0, content.encode())


def config(server: str) -> str:
    return yaml.safe_dump(
        {
            "current-context": "x",
            "clusters": [{"name": "x", "cluster": {"server": server}}],
            "contexts": [{"name": "x", "context": {"cluster": "x"}}],
        }
    )


def a_pod(disk: Disk) -> None:
    for name, content in (("token", "tok\n"), ("ca.crt", "CA"), ("namespace", "bigfleet\n")):
        write(disk, f"{ACCOUNT}/{name}", content)


def test_the_named_file_comes_first_then_the_variable_then_the_home_then_the_pod() -> None:
    disk = MemoryDisk()
    write(disk, "/named", config("https://named"))
    write(disk, "/listed", config("https://listed"))
    write(disk, "/home/u/.kube/config", config("https://home"))
    a_pod(disk)
    environ = {"KUBECONFIG": "/missing::/listed", "HOME": "/home/u", **IN_POD}
    assert find_target(environ, disk, kubeconfig="/named").server == "https://named"
    assert find_target(environ, disk).server == "https://listed"
    assert find_target({"HOME": "/home/u", **IN_POD}, disk).server == "https://home"
    assert find_target({"HOME": "/home/nobody", **IN_POD}, disk).server == "https://10.96.0.1:443"


def test_inside_a_pod_the_service_account_is_used() -> None:
    disk = MemoryDisk()
    a_pod(disk)
    target = find_target(IN_POD | {"KUBERNETES_SERVICE_HOST": "fd00::1"}, disk)
    assert (target.server, target.namespace) == ("https://[fd00::1]:443", "bigfleet")
    assert (target.ca.file, target.token_file) == (f"{ACCOUNT}/ca.crt", f"{ACCOUNT}/token")


def test_no_way_in_is_told_with_what_was_tried() -> None:
    with pytest.raises(
        LoginError, match=r"tried /home/u/\.kube/config, and KUBERNETES_SERVICE_HOST is not set"
    ):
        find_target({"HOME": "/home/u"}, MemoryDisk())


def test_a_named_file_that_is_not_there_is_an_error() -> None:
    with pytest.raises(LoginError, match="/named"):
        find_target(IN_POD, MemoryDisk(), kubeconfig="/named")


def test_a_pod_without_its_token_is_told() -> None:
    with pytest.raises(LoginError, match="is automountServiceAccountToken off"):
        find_target(IN_POD, MemoryDisk())


def test_a_rotated_token_is_picked_up_within_a_minute_and_an_empty_one_is_not() -> None:  # `operator#c7`
    async def main() -> None:
        clock, disk = VirtualClock(), MemoryDisk()
        write(disk, "/t", "first\n")
        login = Login(Target("https://x", token_file="/t"), disk, clock)
        assert (await login.credentials()).token == "first"
        for content, seen in (("", "first"), ("second\n", "second"), ("  \n", "second")):
            write(disk, "/t", content)
            await clock.sleep(61)
            assert (await login.credentials()).token == seen
        disk.remove("/t")
        await clock.sleep(61)
        assert (await login.credentials()).token == "second"

    run_virtual(main())


@pytest.mark.rule("operator#c7", "operator#c8")
def test_files_are_not_read_at_each_call_but_when_asked_for() -> None:  # `operator#c8`
    async def main() -> None:
        clock, disk = VirtualClock(), MemoryDisk()
        write(disk, "/t", "first")
        login = Login(Target("https://x", token_file="/t"), disk, clock)
        await login.credentials()
        write(disk, "/t", "second")
        await clock.sleep(30)
        assert (await login.credentials()).token == "first"
        await login.renew()
        assert (await login.credentials()).token == "second"

    run_virtual(main())


def test_a_rotated_authority_is_picked_up_too() -> None:
    async def main() -> None:
        clock, disk = VirtualClock(), MemoryDisk()
        write(disk, "/ca", "old")
        login = Login(Target("https://x", ca=Material(file="/ca"), token="t"), disk, clock)
        assert (await login.credentials()).ca == b"old"
        write(disk, "/ca", "new")
        await clock.sleep(61)
        assert (await login.credentials()).ca == b"new"

    run_virtual(main())


@pytest.mark.parametrize(("content", "message"), [("", "empty"), ("two words", "more than one line or word")])
def test_a_token_that_never_was_good_is_told(content: str, message: str) -> None:
    async def main() -> None:
        disk = MemoryDisk()
        write(disk, "/t", content)
        with pytest.raises(LoginError, match=message) as caught:
            await Login(Target("https://x", token_file="/t"), disk, VirtualClock()).credentials()
        assert "two" not in str(caught.value)

    run_virtual(main())


def test_a_plugin_is_asked_again_shortly_before_its_token_expires() -> None:
    async def main() -> None:
        clock = VirtualClock()  # begins at 2030-01-01
        calls: list[str] = []

        async def run(plugin: Mapping[str, Any]) -> Mapping[str, Any]:
            calls.append(plugin["command"])
            return {"token": f"t{len(calls)}", "expirationTimestamp": f"2030-01-01T0{len(calls)}:00:00Z"}

        target = Target("https://x", exec_plugin={"command": "login"})
        login = Login(target, MemoryDisk(), clock, run)
        assert (await login.credentials()).token == "t1"
        await clock.sleep(3530)
        assert (await login.credentials()).token == "t1"
        await clock.sleep(20)
        assert (await login.credentials()).token == "t2"
        await login.renew()
        assert calls == ["login"] * 3

    run_virtual(main())


def test_many_calls_refused_at_once_run_the_plugin_once() -> None:
    async def main() -> None:
        clock, calls = VirtualClock(), 0

        async def run(_plugin: Mapping[str, Any]) -> Mapping[str, Any]:
            nonlocal calls
            calls += 1
            await clock.sleep(1)
            return {"token": f"t{calls}"}

        login = Login(Target("https://x", exec_plugin={"command": "login"}), MemoryDisk(), clock, run)
        found = await asyncio.gather(*(login.credentials() for _ in range(30)))
        assert {credentials.token for credentials in found} == {"t1"}
        await asyncio.gather(*(login.renew() for _ in range(30)))
        assert calls == 2

    run_virtual(main())


def test_a_plugin_may_give_a_certificate() -> None:
    async def main() -> None:
        async def run(_plugin: Mapping[str, Any]) -> Mapping[str, Any]:
            return {"clientCertificateData": "CERT", "clientKeyData": "KEY"}

        login = Login(Target("https://x", exec_plugin={"command": "c"}), MemoryDisk(), VirtualClock(), run)
        credentials = await login.credentials()
        assert (credentials.cert, credentials.key) == (b"CERT", b"KEY")
        assert "KEY" not in repr(credentials)

    run_virtual(main())


def test_a_plugin_that_gives_nothing_is_told() -> None:
    async def main() -> None:
        async def run(_plugin: Mapping[str, Any]) -> Mapping[str, Any]:
            return {}

        target = Target("https://x", exec_plugin={"command": "login"})
        with pytest.raises(LoginError, match="neither a token nor a certificate"):
            await Login(target, MemoryDisk(), VirtualClock(), run).credentials()
        with pytest.raises(LoginError, match="runs no credential plugins"):
            await Login(target, MemoryDisk(), VirtualClock()).credentials()

    run_virtual(main())
