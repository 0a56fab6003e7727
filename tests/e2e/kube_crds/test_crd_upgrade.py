"""Custom resources of the next version on a real API server: stored objects stay, and a downgrade loses only the new property."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.integration.upgrade.builds import definitions_of, earlier, following
from tests.support.control_plane.cluster import Cluster
from tests.support.control_plane.options import OLDEST_MINOR, ClusterOptions

PATH = "/apis/bigfleet.lucy.sh/v1alpha1/namespaces/default/capacityrequests"
BARE = ClusterOptions(minor=OLDEST_MINOR, scheduler=False, controllers=(), kwok=())


def request(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "bigfleet.lucy.sh/v1alpha1",
        "kind": "CapacityRequest",
        "metadata": {"name": name},
        "spec": {"priority": 1000, "resources": {"cpu": "1"}, **spec},
    }


def keeps_notes(cluster: Cluster) -> bool:
    """Try without storing: the server may still serve the old schema for a moment."""
    answer = cluster.admin.call("POST", f"{PATH}?dryRun=All", request("probe", note="a remark"))
    return answer.ok and "note" in answer.body["spec"]


@pytest.mark.rule("packaging#crds", "packaging#upgrade")
@pytest.mark.long
def test_objects_survive_the_next_definitions_and_the_way_back(
    make_cluster: Callable[[ClusterOptions], Cluster], tmp_path: Path
) -> None:
    before = [one.manifest() for one in definitions_of(earlier(tmp_path / "earlier"))]
    after = [one.manifest() for one in definitions_of(following(tmp_path / "following"))]
    cluster = make_cluster(BARE)
    cluster.install_crds(before)
    old = cluster.admin.post(PATH, request("old", note="dropped"))
    assert old["spec"] == request("old")["spec"]

    cluster.install_crds(after)
    cluster.wait("the next schema is served", partial(keeps_notes, cluster))
    assert cluster.admin.get(f"{PATH}/old") == old
    assert cluster.admin.post(PATH, request("new", note="kept"))["spec"]["note"] == "kept"
    assert cluster.admin.patch(f"{PATH}/old", {"spec": {"note": "late"}})["spec"]["note"] == "late"

    cluster.install_crds(before)
    cluster.wait("the schema of before is served", lambda: not keeps_notes(cluster))
    for name in ("old", "new"):
        assert cluster.admin.get(f"{PATH}/{name}")["spec"] == request(name)["spec"]
