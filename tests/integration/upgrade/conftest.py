"""The two versions, made once per run."""

import warnings
from pathlib import Path

import pytest

from tests.integration.upgrade.builds import EARLIER, Build, earlier, following


@pytest.fixture(scope="session")
def old(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Version N: an earlier commit; a clone without it says which version it takes instead."""
    build = earlier(Path(tmp_path_factory.mktemp("earlier")) / "tree")
    if EARLIER[:12] != build.origin.split()[-1]:
        warnings.warn(f"version N is {build.origin}", stacklevel=1)
    return build


@pytest.fixture(scope="session")
def new(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Version N+1: this tree with a field, a kind of command and a property more."""
    return following(Path(tmp_path_factory.mktemp("following")) / "tree")
