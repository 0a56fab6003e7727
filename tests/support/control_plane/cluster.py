"""One whole Kubernetes control plane in a directory of its own, on one port of loopback.

Why: admission, schema rules, garbage collection, disruption budgets and scheduling are only what they are in the real
thing; a cluster that starts in seconds lets ordinary tests use it.
Must never: outlive its runner, listen beyond loopback, or share anything with another cluster.

A port is reserved for the cluster's whole life by a socket that is bound but never listens, so a restarted API server
comes back on it, and no two clusters race for one.
"""

import re
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from tests.support.control_plane import flags
from tests.support.control_plane.audit import AuditEvent, read_events
from tests.support.control_plane.client import APPLY_PATCH, Api
from tests.support.control_plane.component import Component, Sweeper, component_environ
from tests.support.control_plane.credentials import make_credentials
from tests.support.control_plane.errors import (
    ControlPlaneError,
    KubectlError,
    NotInTimeError,
    UnreachableError,
)
from tests.support.control_plane.objects import condition
from tests.support.control_plane.options import ADMIN, CONTROLLERS, ORDINARY, SCHEDULER, ClusterOptions

T = TypeVar("T")
_POLL_S: Final = 0.05
_START_S: Final = 120  # a machine busy with other work takes several times the usual six seconds
_KUBECTL_S: Final = 60
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Cluster:
    """etcd, API server and, unless the options say otherwise, scheduler, controllers and a fake kubelet."""

    def __init__(self, binary: Path, options: ClusterOptions = ORDINARY) -> None:
        stages = options.stages or stock_stages(binary)  # first, as it fails if this is no testbed
        self.options = options
        self._binary = binary
        self._guard = socket.socket()
        self._guard.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._guard.bind(("127.0.0.1", 0))
        self.port: int = self._guard.getsockname()[1]
        self.url = f"https://127.0.0.1:{self.port}"
        self.directory = Path(tempfile.mkdtemp(prefix="bigfleet-testbed-"))
        self.ca_file = self.directory / flags.CA_FILE
        self._sweeper = Sweeper(self.directory)
        self._write_inputs(stages)
        self.etcd = self._component("etcd", flags.etcd())
        self.api_server = self._component("kube-apiserver", flags.api_server(self.port, options))
        self.scheduler = self._component(
            "kube-scheduler", flags.scheduler(self.kubeconfig(SCHEDULER).name, options)
        )
        self.controllers = self._component(
            "kube-controller-manager", flags.controllers(self.kubeconfig(CONTROLLERS).name, options)
        )
        self.kwoks = tuple(
            self._component("kwok", flags.kwok(self.kubeconfig(ADMIN).name, selector), f"kwok-{index}")
            for index, selector in enumerate(options.kwok)
        )
        self.admin = self.api(ADMIN)

    @property
    def components(self) -> tuple[Component, ...]:
        """Every process of the cluster, in the order in which they start."""
        return (self.etcd, self.api_server, self.scheduler, self.controllers, *self.kwoks)

    @property
    def pids(self) -> tuple[int, ...]:
        """The ids of all running processes, the sweeper's included."""
        return (self._sweeper.pid, *(part.pid for part in self.components if part.pid is not None))

    def start(self, prepare: "Prepare | None" = None) -> Self:
        """Start everything and return when a pod could be created; on failure nothing stays behind.

        `prepare` is called before the controllers start: the garbage collector looks for new kinds every half minute only.
        """
        try:
            self.etcd.start()
            self.api_server.start()
            self._wait_for_api_server()
            if prepare is not None:
                prepare(self)
            if self.options.scheduler:
                self.scheduler.start()
            for kwok in self.kwoks:
                kwok.start()
            if self.options.controllers:
                self.controllers.start()
                self._wait_for_service_account("default")
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End every process and remove the directory; a second call does nothing."""
        if self._guard.fileno() < 0:
            return
        for part in reversed(self.components):
            part.kill()
        self._guard.close()
        self._sweeper.sweep()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def restart_api_server(self) -> None:
        """Kill the API server and start it again on the same port; the other components ride it out."""
        self.api_server.kill()
        self.api_server.start()
        self._wait_for_api_server()

    def api(self, user: str = ADMIN) -> Api:
        """Return a way to call the API server as one of the users of the cluster."""
        return self.api_with_token(self.options.user(user).token)

    def api_with_token(self, token: str) -> Api:
        """Return a client of the API server with this token."""
        return Api(self.url, self.ca_file, token)

    def service_account_token(self, namespace: str, name: str) -> str:
        """Return a fresh token of a service account, as a pod would be given."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        return str(self.admin.post(path, {"spec": {"expirationSeconds": 3600}})["status"]["token"])

    def kubeconfig(self, user: str = ADMIN, token: str | None = None) -> Path:
        """Write a kubeconfig for a user of the cluster, or for any name with a token, and return its path."""
        token = self.options.user(user).token if token is None else token
        path = self.directory / f"{re.sub(r'[^a-z0-9.-]', '-', user.lower())}.kubeconfig"
        path.write_text(flags.kubeconfig(self.url, str(self.ca_file), user, token), encoding="utf-8")
        path.chmod(0o600)
        return path

    def kubectl(self, *arguments: str, user: str = ADMIN, stdin: str = "", check: bool = True) -> str:
        """Run the kubectl of the testbed and return what it printed; a failure raises with its output."""
        done = subprocess.run(
            (str(self._binary), "kubectl", f"--kubeconfig={self.kubeconfig(user)}", *arguments),
            cwd=self.directory,
            env=component_environ(self.directory),
            input=stdin,
            text=True,
            capture_output=True,
            timeout=_KUBECTL_S,
            check=False,
        )
        if done.returncode and check:
            raise KubectlError(arguments, done.returncode, done.stderr)
        return done.stdout

    def make_namespace(self, name: str) -> str:
        """Create a namespace in which pods can be created at once, and return its name."""
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        self.admin.post("/api/v1/namespaces", body)
        if self.options.controllers:
            self._wait_for_service_account(name)
        return name

    def install_crds(self, definitions: Iterable[Mapping[str, Any]]) -> None:
        """Install or update custom resource definitions, and return when the API server serves them."""
        installed = []
        for definition in definitions:
            path = f"{_CRDS}/{definition['metadata']['name']}"
            query = "?fieldManager=testbed&force=true"
            installed.append(self.admin.patch(path + query, definition, content_type=APPLY_PATCH))
        for definition in installed:
            self.wait(f"{definition['metadata']['name']} served", partial(self._serves, definition))

    def wait(self, what: str, condition: Callable[[], T], seconds: float = 60) -> T:
        """Return the first true answer of a condition; raise with the logs if a component ends or none comes in time.

        An API server that cannot be reached is an answer too: not yet.
        """
        end = time.monotonic() + seconds
        while True:
            try:
                if answer := condition():
                    return answer
            except UnreachableError:
                pass
            for part in self.components:
                part.check()
            if time.monotonic() > end:
                raise NotInTimeError(what, seconds, self.logs())
            time.sleep(_POLL_S)

    def audit_events(self, user: str | None = None) -> list[AuditEvent]:
        """Return what the API server recorded so far, of all users or of one; needs the option `audit`."""
        text = (self.directory / flags.AUDIT_LOG).read_text(encoding="utf-8")
        return list(read_events(text, user))

    def logs(self) -> str:
        """Return the end of every component's log."""
        return "\n".join(
            f"--- {part.name}\n{part.log_tail()}" for part in self.components if part.log.exists()
        )

    def _component(self, program: str, arguments: tuple[str, ...], name: str = "") -> Component:
        return Component(self._binary, self.directory, program, arguments, name)

    def _write_inputs(self, stages: str) -> None:
        made = make_credentials(datetime.now(UTC))
        files: dict[str, bytes] = {
            flags.CA_FILE: made.ca,
            flags.CERT_FILE: made.server_cert,
            flags.KEY_FILE: made.server_key,
            flags.SERVICE_ACCOUNT_KEY_FILE: made.service_account_key,
            flags.TOKENS_FILE: flags.tokens(self.options.users).encode(),
            flags.STAGES_FILE: stages.encode(),
            flags.AUDIT_POLICY_FILE: flags.audit_policy().encode(),
        }
        for name, content in files.items():
            (self.directory / name).write_bytes(content)

    def _serves(self, definition: Mapping[str, Any]) -> bool:
        spec = definition["spec"]
        found = self.admin.get(f"{_CRDS}/{definition['metadata']['name']}")
        if condition(found, "Established") != "True":
            return False
        # Established, it may still answer 404, or 429 while its storage is made.
        path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}?limit=1"
        return self.admin.call("GET", path).ok

    def _wait_for_api_server(self) -> None:
        self.wait("API server ready", lambda: self.admin.call("GET", "/readyz").ok, _START_S)

    def _wait_for_service_account(self, namespace: str) -> None:
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
        self.wait(f"service account of {namespace}", lambda: self.admin.find(path), _START_S)


def stock_stages(binary: Path) -> str:
    """Return kwok's stock behaviour, for a test that wants to edit it."""
    command = (str(binary), "kwok-stages")
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    if done.returncode or "kind: Stage" not in done.stdout:
        raise ControlPlaneError(f"{binary} is no testbed: kwok-stages ended with exit code {done.returncode}")
    return done.stdout


Prepare = Callable[[Cluster], object]
"""What a caller does to a cluster whose API server is there and whose controllers are not yet: install kinds, bind roles."""


def start_clusters(
    binary: Path, options: Sequence[ClusterOptions], prepare: Prepare | None = None
) -> list[Cluster]:
    """Start several clusters at the same time; if one fails, none stays."""
    clusters = [Cluster(binary, wanted) for wanted in options]
    try:
        with ThreadPoolExecutor(max_workers=max(1, len(clusters))) as pool:
            list(pool.map(lambda cluster: cluster.start(prepare), clusters))
    except BaseException:
        for cluster in clusters:
            cluster.stop()
        raise
    return clusters
