"""Two clusters for the stories of a module, emptied after each."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.fleet.harness import BUDGETS, NAMESPACE, start_fleet_clusters
from tests.support.control_plane.cluster import Cluster


@pytest.fixture(scope="module")
def two_clusters(testbed_binary: Path) -> Iterator[list[Cluster]]:
    clusters = start_fleet_clusters(testbed_binary, 2)
    try:
        yield clusters
    finally:
        for cluster in clusters:
            cluster.stop()


@pytest.fixture
def clean_clusters(two_clusters: list[Cluster]) -> Iterator[list[Cluster]]:
    """The clusters, emptied after each story."""
    yield two_clusters
    for cluster in two_clusters:
        for path in (
            f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments",
            f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets",
            BUDGETS,
            f"/api/v1/namespaces/{NAMESPACE}/pods?gracePeriodSeconds=0",
            "/apis/bigfleet.lucy.sh/v1alpha1/upcomingnodes",
            "/apis/bigfleet.lucy.sh/v1alpha1/availablecapacities",
            "/api/v1/nodes",
        ):
            cluster.admin.delete(path)
        for _ in range(2):  # the first round may race with a ReplicaSet that is about to go
            cluster.admin.delete(f"/api/v1/namespaces/{NAMESPACE}/pods?gracePeriodSeconds=0")
        cluster.wait(
            "no pod is left",
            lambda one=cluster: not one.admin.get(f"/api/v1/namespaces/{NAMESPACE}/pods")["items"],  # type: ignore[misc]
        )
