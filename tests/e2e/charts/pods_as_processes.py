"""Plays the kubelet: runs the containers of real Pod objects as processes of this machine.

Why: what a chart renders is proven only by the program that starts from it. Command, arguments, environment and volumes are read
from the Pods that the controllers made in the API server; Secrets and ConfigMaps from the objects themselves; API access is the
token of the Pod's own service account.
What differs from a node, and is therefore not shown here: each Pod has a loopback address of its own instead of a network, so
names of Services are replaced by these addresses, and replicas that would find each other through the headless Service
(`--join-addr`) are told the same members by `--peers`.
"""

import base64
import http.client
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.control_plane.cluster import Cluster
from tests.support.program import RunningProgram

Document = dict[str, Any]
_NAME = re.compile(r"([a-z0-9.-]+)\.svc:(\d+)")
_BIND = re.compile(r"--(listen|raft-bind|metrics-addr)=:(\d+)")


class Kubelet:
    """All Pods of one namespace that are to run."""

    def __init__(
        self, cluster: Cluster, namespace: str, directory: Path, addresses: Callable[[str], str]
    ) -> None:
        self.cluster, self.namespace, self.directory = cluster, namespace, directory
        self.address = addresses  # of a Pod or of a Service, by name
        self.running: dict[str, RunningProgram] = {}
        self._starts = 0

    def pods(self, component: str) -> list[Document]:
        """Return the Pods of a component as the API server has them, in the order of their names."""
        query = f"labelSelector=app.kubernetes.io%2Fcomponent%3D{component}"
        found = self.cluster.admin.get(f"/api/v1/namespaces/{self.namespace}/pods?{query}")["items"]
        alive = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
        return sorted(alive, key=lambda pod: str(pod["metadata"]["name"]))

    def start(self, pod: Document) -> RunningProgram:
        """Start the one container of a Pod."""
        name = pod["metadata"]["name"]
        (container,) = pod["spec"]["containers"]
        mounts = self._volumes(pod, container)
        program, *words = container["command"]
        arguments = [self._argument(argument, name, mounts) for argument in container.get("args", ())]
        given = {item["name"]: item["value"] for item in container.get("env", ()) if "value" in item}
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.directory), "NO_PROXY": "*", **given}
        if any("serviceaccount" in mount["mountPath"] for mount in container["volumeMounts"]):
            account = pod["spec"]["serviceAccountName"]
            token = self.cluster.service_account_token(self.namespace, account)
            environ["KUBECONFIG"] = str(self.cluster.kubeconfig(account, token))
        self._starts += 1
        log = self.directory / f"{self._starts}-{name}.log"
        flags = [*words, *filter(None, arguments)]
        self.running[name] = RunningProgram(program, *flags, log=log, environ=environ)
        return self.running[name]

    def ready(self, pod: Document) -> bool:
        """Ask what the readiness probe of the Pod asks."""
        name = pod["metadata"]["name"]
        (container,) = pod["spec"]["containers"]
        probe = container["readinessProbe"]["httpGet"]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        connection = http.client.HTTPConnection(self.address(name), ports[probe["port"]], timeout=10)
        try:
            connection.request("GET", probe["path"])
            return connection.getresponse().status == http.HTTPStatus.OK
        except OSError:
            return False
        finally:
            connection.close()

    def wait(self, what: str, condition: Callable[[], object], seconds: float = 90) -> None:
        """Wait for a fact; a program that ends meanwhile is told with its last words."""

        def holds() -> object:
            for program in self.running.values():
                assert program.code is None, f"{program.name} ended with {program.code}:\n{program.text()}"
            return condition()

        try:
            self.cluster.wait(what, holds, seconds)
        except Exception as error:
            told = "\n".join(
                f"--- {name}\n{program.text()[-1500:]}" for name, program in self.running.items()
            )
            raise AssertionError(f"not in time: {what}\n{told}") from error

    def end(self) -> dict[str, int]:
        """End everything as a kubelet would, and return the exit codes."""
        return {name: program.end() for name, program in self.running.items()}

    def kill(self) -> None:
        for program in self.running.values():
            program.kill()

    # ---- what a node does

    def _argument(self, argument: str, pod: str, mounts: dict[str, Path]) -> str:
        argument = argument.replace("$(POD_NAME)", pod)
        if argument.startswith("--raft-advertise="):
            return ""  # part of --peers
        if argument.startswith("--join-addr="):
            return f"--peers={self._peers(argument.partition('=')[2])}"
        argument = _BIND.sub(rf"--\1={self.address(pod)}:\2", argument)
        argument = _NAME.sub(lambda found: f"{self.address(found[1].partition('.')[0])}:{found[2]}", argument)
        flag, equals, value = argument.partition("=")
        for place, folder in mounts.items():
            if value == place or value.startswith(f"{place}/"):
                return f"{flag}{equals}{folder}{value.removeprefix(place)}"
        return argument

    def _peers(self, service: str) -> str:
        name, _, port = service.partition(".")[0], "", service.rpartition(":")[2]
        pods = self.pods(name.rpartition("-")[2])
        (raft,) = {
            each["containerPort"]
            for pod in pods
            for each in pod["spec"]["containers"][0]["ports"]
            if each["name"] == "raft"
        }
        names = [pod["metadata"]["name"] for pod in pods]
        return ",".join(f"{each}@{self.address(each)}:{raft}@{self.address(each)}:{port}" for each in names)

    def _volumes(self, pod: Document, container: Document) -> dict[str, Path]:
        sources = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        made: dict[str, Path] = {}
        for mount in container["volumeMounts"]:
            if mount["mountPath"] == "/tmp" or "serviceaccount" in mount["mountPath"]:
                continue
            folder = self.directory / pod["metadata"]["name"] / mount["name"] / mount.get("subPath", "")
            folder.mkdir(parents=True, exist_ok=True)
            self._fill(folder, sources[mount["name"]])
            made[mount["mountPath"]] = folder
        return made

    def _fill(self, folder: Path, volume: Document) -> None:
        if "secret" in volume:
            self._write(folder, "secrets", volume["secret"]["secretName"], volume["secret"].get("items"))
        elif "configMap" in volume:
            self._write(folder, "configmaps", volume["configMap"]["name"], volume["configMap"].get("items"))
        for source in volume.get("projected", {}).get("sources", ()):
            self._write(folder, "secrets", source["secret"]["name"], source["secret"]["items"])

    def _write(self, folder: Path, plural: str, name: str, items: list[Document] | None) -> None:
        found = self.cluster.admin.get(f"/api/v1/namespaces/{self.namespace}/{plural}/{name}")["data"]
        for item in items or [{"key": key, "path": key} for key in found]:
            content = found[item["key"]]
            target = folder / item["path"]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(base64.b64decode(content) if plural == "secrets" else content.encode())
