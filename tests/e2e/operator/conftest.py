"""A fresh bench in the cluster with an audit log for each of the operator's tests."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.e2e.operator.harness import Bench, bench, clean
from tests.e2e.rights import OPERATOR
from tests.support.control_plane.audit import AuditEvent
from tests.support.control_plane.cluster import Cluster
from tests.support.control_plane.pool import ClusterPool


@pytest.fixture
def new_namespace(
    audited_cluster: Cluster, cluster_pool: ClusterPool, request: pytest.FixtureRequest
) -> Iterator[str]:
    name = audited_cluster.make_namespace(cluster_pool.new_name(request.node.name))
    yield name
    clean(audited_cluster, name)


@pytest_asyncio.fixture
async def world(audited_cluster: Cluster, new_namespace: str, tmp_path: Path) -> AsyncIterator[Bench]:
    """A bench whose operator is granted exactly its role; no call of it may have been refused.

    Except in tests that restart the API server: it refuses every account until it has read its roles.
    """
    known = len(refused(audited_cluster))
    async with bench(audited_cluster, new_namespace, tmp_path) as one:
        yield one
    if not one.restarts_api_server:
        assert refused(audited_cluster)[known:] == []


def refused(cluster: Cluster) -> list[AuditEvent]:
    return [event for event in cluster.audit_events(OPERATOR) if event.code == 403]
