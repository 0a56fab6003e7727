"""One cluster with an audit log for the operator's tests, and a fresh bench in it for each."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from bigfleet.kube.crds.definitions import DEFINITIONS
from bigfleet.testing.control_plane.audit import AuditEvent
from bigfleet.testing.control_plane.cluster import Cluster, start_clusters
from bigfleet.testing.control_plane.pool import ClusterPool
from tests.e2e.operator.harness import ACCOUNT, OPTIONS, Bench, bench, clean, grant


@pytest.fixture(scope="session")
def operator_cluster(testbed_binary: Path) -> Iterator[Cluster]:
    (cluster,) = start_clusters(testbed_binary, [OPTIONS])
    try:
        cluster.install_crds(definition.manifest() for definition in DEFINITIONS)
        grant(cluster)
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def new_namespace(
    operator_cluster: Cluster, cluster_pool: ClusterPool, request: pytest.FixtureRequest
) -> Iterator[str]:
    name = operator_cluster.make_namespace(cluster_pool.new_name(request.node.name))
    yield name
    clean(operator_cluster, name)


@pytest_asyncio.fixture
async def world(operator_cluster: Cluster, new_namespace: str, tmp_path: Path) -> AsyncIterator[Bench]:
    """A bench whose operator is granted exactly its role; no call of it may have been refused.

    But for tests that restart the API server: it refuses everybody until it has read its roles.
    """
    known = len(refused(operator_cluster))
    async with bench(operator_cluster, new_namespace, tmp_path) as one:
        yield one
    if not one.restarts_api_server:
        assert refused(operator_cluster)[known:] == []


def refused(cluster: Cluster) -> list[AuditEvent]:
    return [event for event in cluster.audit_events(ACCOUNT) if event.code == 403]
