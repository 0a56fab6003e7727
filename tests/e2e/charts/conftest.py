"""A control plane that also knows the kinds of cert-manager and of the Prometheus operator."""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.control_plane.cluster import Cluster
from tests.support.control_plane.errors import BinaryMissingError
from tests.support.control_plane.tools import find_kinds

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def foreign_kinds() -> list[dict[str, Any]]:
    """The definitions of other projects; without them the test is skipped, or fails where CI asks for them."""
    try:
        files = find_kinds(ROOT / "tests" / "testbed", os.environ)
    except BinaryMissingError as error:
        if os.environ.get("TESTBED_REQUIRED", "0") != "0":
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
    return [yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader) for file in files]


@pytest.fixture
def charted(cluster: Cluster, foreign_kinds: list[dict[str, Any]]) -> Cluster:
    """The cluster shared by the whole run, with these kinds too."""
    cluster.install_crds(foreign_kinds)
    return cluster
