"""One cluster of a test, Helm against it, and the Pods that it runs as processes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.charts.rendering import helm
from tests.e2e.charts.pods_as_processes import Kubelet
from tests.support.control_plane.cluster import Cluster

Document = dict[str, Any]


class Site:
    """One namespace of a cluster, what is installed in it, and what runs."""

    def __init__(
        self, cluster: Cluster, namespace: str, directory: Path, addresses: Callable[[str], str]
    ) -> None:
        self.cluster, self.namespace, self.directory = cluster, namespace, directory
        self.kubelet = Kubelet(cluster, namespace, directory, addresses)

    def try_helm(self, *arguments: str, values: Document | None = None) -> tuple[int, str]:
        """Run Helm; return its exit code, and what it printed or complained of."""
        done = helm(
            *arguments,
            f"--namespace={self.namespace}",
            *(("--values=-",) if values is not None else ()),
            stdin=json.dumps(values or {}),
            kubeconfig=self.cluster.kubeconfig(),
        )
        return done.returncode, done.stderr if done.returncode else done.stdout

    def helm(self, *arguments: str, values: Document | None = None) -> str:
        """Run Helm, which must succeed; return what it printed."""
        code, said = self.try_helm(*arguments, values=values)
        assert code == 0, said
        return said

    def run(self, component: str, count: int) -> list[Document]:
        """Wait for the Pods of a component, placed and bound, and start them."""
        placed = self.cluster.wait(
            f"{count} pods of {component} are placed",
            lambda: (
                [pod for pod in self.kubelet.pods(component) if pod["spec"].get("nodeName")][count - 1 :]
                and self.kubelet.pods(component)
            ),
        )
        for pod in placed:
            self.kubelet.start(pod)
        self.kubelet.wait(f"{component} is ready", lambda: all(map(self.kubelet.ready, placed)))
        return placed
