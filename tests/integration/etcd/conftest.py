"""A real etcd for every test in this folder; without the binary of the test control plane they are skipped, in CI they fail."""

import os
from pathlib import Path

import pytest

from tests.support.control_plane import build
from tests.support.control_plane.errors import BinaryMissingError

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def etcd_binary() -> Path:
    try:
        return build.find(ROOT / "tests" / "testbed", os.environ)
    except BinaryMissingError as error:
        if os.environ.get("TESTBED_REQUIRED", "0") != "0":
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
