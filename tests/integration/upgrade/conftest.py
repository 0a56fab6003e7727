"""The two versions, made once per run."""

from pathlib import Path

import pytest

from tests.integration.upgrade.builds import Build, HistoryMissingError, earlier, following


@pytest.fixture(scope="session")
def old(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Version N: an earlier commit. Where there is no history, as in an unpacked sdist, the test is skipped and says so."""
    try:
        return earlier(Path(tmp_path_factory.mktemp("earlier")) / "tree")
    except HistoryMissingError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def new(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Version N+1: this tree with a field, a kind of command and a property more."""
    return following(Path(tmp_path_factory.mktemp("following")) / "tree")
