"""`make fleet`: the programs of compose.yaml as processes of this machine, until Ctrl-C; `TLS=1` is the profile `tls`.

    python deploy/compose/fleet.py --data DIR [--tls]

Why: the same topology must come up where there is no container engine, and a compose file that no test runs breaks unnoticed.
Must never: listen beyond loopback, leave a process behind, or know a service that the file does not name.

Each service gets a loopback address of its own, so ports are those of the file; Linux has the whole of 127.0.0.0/8. A program that
ends is started again, as the file's restart policy says. Prometheus and Grafana are left out: they are not ours.
"""

import argparse
import http.client
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RESTART_S = 1.0
CANNOT_WORK = 2  # the exit code for flags and files that starting again would not mend


class Service:
    """One program of the file."""

    def __init__(
        self, name: str, described: dict[str, Any], addresses: dict[str, str], data: Path, *, tls: bool
    ) -> None:
        self.name, self.address, self._tls = name, addresses[name], tls
        entry, words = described.get("entrypoint", ["bigfleet"]), described["command"]
        folder = data / name
        folder.mkdir(parents=True, exist_ok=True)
        self.command = [
            str(Path(sys.executable).with_name(entry[0])),
            *(self._word(str(word), addresses, folder, data) for word in words),
        ]
        found = re.search(r"--ready=http://127\.0\.0\.1:(\d+)", str(described.get("healthcheck", "")))
        self.ready_port = int(found[1]) if found else None
        self.log = data / f"{name}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.due_s = 0.0

    def _word(self, word: str, addresses: dict[str, str], folder: Path, data: Path) -> str:
        word = re.sub(r"\$\{TLS:\+(.*)\}", r"\1" if self._tls else "", word).replace(
            "/pki", str(data / "pki")
        )
        word = re.sub(r"^(--[a-z-]+)=:(\d+)$", rf"\1={self.address}:\2", word)
        names = "|".join(map(re.escape, addresses))
        word = re.sub(rf"(?<![\w.-])({names}):(\d+)", lambda found: f"{addresses[found[1]]}:{found[2]}", word)
        word = word.replace("/var/lib/bigfleet", str(folder)).replace("/run/secrets", str(data))
        return word.replace("/etc/bigfleet", str(HERE))

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603  a program of the file
                self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.log.parent
            )

    def is_ready(self) -> bool:
        if self.process is None or self.process.poll() is not None:
            return False
        if self.ready_port is None:
            return True
        connection = http.client.HTTPConnection(self.address, self.ready_port, timeout=2)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == http.HTTPStatus.OK
        except OSError:
            return False
        finally:
            connection.close()

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()


def services(data: Path, *, tls: bool) -> list[Service]:
    """Return the programs of the file that are ours and stay; with TLS the certificates are made first."""
    described = yaml.safe_load((HERE / "compose.yaml").read_text(encoding="utf-8"))["services"]
    certs = described.pop("certs")
    ours = {name: each for name, each in described.items() if "bigfleet" in each["image"]}
    addresses = {name: f"127.78.0.{number}" for number, name in enumerate(ours, 1)}
    secret = data / "raft-secret"
    if not secret.exists():
        secret.touch(mode=0o600)
        secret.write_text(secrets.token_urlsafe(48), encoding="utf-8")
    if tls:
        make_certificates(certs["command"][1:], addresses, data / "pki")
    return [Service(name, each, addresses, data, tls=tls) for name, each in ours.items()]


def make_certificates(holders: list[str], addresses: dict[str, str], folder: Path) -> None:
    """Run the one-shot service of the file, with the address of each process beside its name."""
    named = {holder: addresses.get(holder.partition("/")[2], "") for holder in holders}
    words = [f"{holder}={address}" if address else holder for holder, address in named.items()]
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    command = (sys.executable, str(HERE / "certs.py"), str(folder), *words)
    done = subprocess.run(command, env={**os.environ, "PATH": path}, stdout=subprocess.DEVNULL, check=False)  # noqa: S603  our own
    if done.returncode:
        raise SystemExit(done.returncode)


def run(data: Path, *, tls: bool) -> int:
    """Start everything, tell when all is ready, keep it up until a signal comes; 1 if a program refuses its flags."""
    fleet = services(data, tls=tls)
    stopping = False

    def stop(_number: int, _frame: FrameType | None) -> None:
        nonlocal stopping
        stopping = True

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    began = time.monotonic()
    announced = was_waiting = False
    try:
        for service in fleet:
            service.start()
        while not stopping:
            for service in fleet:
                if service.process is not None and service.process.poll() is not None:
                    if service.process.returncode == CANNOT_WORK:
                        print(f"{service.name}: {last_line(service.log)}", flush=True)
                        return 1
                    print(f"{service.name} ended with {service.process.returncode}; starts again", flush=True)
                    service.process, service.due_s = None, time.monotonic() + RESTART_S
                if service.process is None and time.monotonic() >= service.due_s:
                    service.start()
            waiting = [service.name for service in fleet if not service.is_ready()]
            if not waiting and not announced:
                tell(fleet, time.monotonic() - began, data, tls=tls)
            elif not waiting and was_waiting:
                print("ready again", flush=True)
            announced, was_waiting = announced or not waiting, bool(waiting)
            time.sleep(0.2)
    finally:
        for service in fleet:
            service.end()
        for service in fleet:
            if service.process is not None:
                try:
                    service.process.wait(20)
                except subprocess.TimeoutExpired:
                    service.process.kill()
    print("stopped", flush=True)
    return 0


def last_line(log: Path) -> str:
    """Return what a program said last."""
    return (log.read_text(encoding="utf-8", errors="replace").splitlines() or ["said nothing"])[-1]


def tell(fleet: list[Service], seconds: float, data: Path, *, tls: bool) -> None:
    """Say that all is well, and where to look."""
    at = {service.name: service.address for service in fleet}
    admin, reader = (files(data / "pki" / name) if tls else "" for name in ("coordinator-0", "dashboard"))
    print(f"ready        {len(fleet)} programs after {seconds:.0f} s, logs in {data}")
    print(f"dashboard    http://{at['dashboard']}:8760/")
    print(f"coordinator  bigfleetctl --coordinator {at['coordinator-0']}:7790{admin} status")
    print(f"shard        bigfleet status --shard {at['shard-0']}:7780{reader}", flush=True)


def files(folder: Path) -> str:
    """Return the flags that name a certificate."""
    return f" --tls-cert {folder}/tls.crt --tls-key {folder}/tls.key --tls-ca {folder}/ca.crt"


def main() -> int:
    """Read the flags and run."""
    parser = argparse.ArgumentParser(description="Run the fleet of compose.yaml as processes.")
    parser.add_argument(
        "--data", type=Path, default=ROOT / ".make" / "fleet", help="directory of data and logs"
    )
    parser.add_argument("--tls", action="store_true", help="mutual TLS, with certificates made once")
    given = parser.parse_args()
    given.data.mkdir(parents=True, exist_ok=True)
    return run(given.data.resolve(), tls=given.tls)


if __name__ == "__main__":
    sys.exit(main())
