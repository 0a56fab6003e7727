"""A real control plane for every test in this folder that asks for one.

Without the binary such a test is skipped with the command that makes it; with TESTBED_REQUIRED set, as in CI, it fails.
"""

import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from bigfleet.kube.crds.definitions import DEFINITIONS
from tests.e2e.rights import CONTROLLER, OPERATOR, grant_roles
from tests.support.control_plane import build
from tests.support.control_plane.cluster import Cluster
from tests.support.control_plane.errors import BinaryMissingError
from tests.support.control_plane.options import ClusterOptions, User
from tests.support.control_plane.pool import ClusterPool

ROOT = Path(__file__).resolve().parents[2]


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test that needs the control plane, so that none can forget to."""
    for item in items:
        if "testbed_binary" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.control_plane)
            item.add_marker(pytest.mark.integration)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of every component's log below a test that failed."""
    report = yield
    pool = getattr(item, "funcargs", {}).get("cluster_pool")
    if report.failed and isinstance(pool, ClusterPool):
        for cluster in pool.running:
            report.sections.append((f"control plane {cluster.url}", cluster.logs()))
    return report


@pytest.fixture(scope="session")
def testbed_binary() -> Path:
    try:
        return build.find(ROOT / "tests" / "testbed", os.environ)
    except BinaryMissingError as error:
        if os.environ.get("TESTBED_REQUIRED", "0") != "0":
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def cluster_pool(testbed_binary: Path) -> Iterator[ClusterPool]:
    pool = ClusterPool(
        testbed_binary, lambda cluster: cluster.install_crds(d.manifest() for d in DEFINITIONS)
    )
    yield pool
    pool.end()


@pytest.fixture
def clusters(cluster_pool: ClusterPool) -> Callable[[int], list[Cluster]]:
    """Ordinary clusters shared by the whole run, as many as asked for."""
    return cluster_pool.shared


@pytest.fixture
def cluster(cluster_pool: ClusterPool) -> Cluster:
    """The ordinary cluster shared by the whole run, with our custom resources; keep to a namespace, break nothing."""
    return cluster_pool.shared(1)[0]


@pytest.fixture(scope="session")
def audited_cluster(testbed_binary: Path) -> Iterator[Cluster]:
    """A whole cluster that records every call, with an account for each of our programs that has exactly its role."""
    cluster = Cluster(testbed_binary, ClusterOptions(audit=True, users=(User(OPERATOR), User(CONTROLLER))))
    cluster.start(grant_roles)
    try:
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def make_cluster(cluster_pool: ClusterPool) -> Iterator[Callable[[ClusterOptions], Cluster]]:
    """Clusters of this test alone."""
    yield cluster_pool.own
    cluster_pool.end_own()


@pytest.fixture
def new_name(cluster_pool: ClusterPool, request: pytest.FixtureRequest) -> Callable[[], str]:
    """Names that no other test uses, for what is not in a namespace: nodes, above all."""
    return lambda: cluster_pool.new_name(request.node.name)


@pytest.fixture
def namespace(cluster: Cluster, new_name: Callable[[], str]) -> Iterator[str]:
    """A namespace of this test alone in the shared cluster; its end is not waited for, as it takes five seconds."""
    name = cluster.make_namespace(new_name())
    yield name
    cluster.admin.delete(f"/api/v1/namespaces/{name}")
