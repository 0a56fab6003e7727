"""An inventory file for programs."""

from pathlib import Path

import pytest

from tests.integration.provider.programs import POOLS


@pytest.fixture
def pools(tmp_path: Path) -> str:
    file = tmp_path / "pools.yaml"
    file.write_text(POOLS)
    return str(file)
