"""The pytest plugin keeps out of the way until it is given a target."""

from types import SimpleNamespace
from typing import cast

import pytest

from bigfleet.provider.conformance import pytest_plugin


class Config:
    """As much of pytest's configuration as the plugin asks for."""

    def __init__(self, **options: object) -> None:
        self.options = {"--bigfleet-seed": 4, "--bigfleet-machines": "t-*", "--bigfleet-fault-target": ""}
        self.options |= {f"--bigfleet-{name}": value for name, value in options.items()}

    def getoption(self, name: str) -> object:
        return self.options[name]


def test_without_a_target_nothing_is_added() -> None:
    items: list[pytest.Item] = []
    session = SimpleNamespace(config=Config(target=None))
    pytest_plugin.pytest_collection_modifyitems(cast("pytest.Session", session), items)
    assert items == []


def test_options_become_settings() -> None:
    config = cast("pytest.Config", Config(profile="core, fault"))
    settings = pytest_plugin._settings(config, "B303")
    assert settings.profiles == ("core", "fault")
    assert (settings.seed, settings.machines, settings.only) == (4, "t-*", ("B303",))


def test_an_unknown_profile_is_told() -> None:
    config = cast("pytest.Config", Config(profile="gold"))
    with pytest.raises(pytest.UsageError, match="--bigfleet-profile: found 'gold', allowed is core, cloud"):
        pytest_plugin._settings(config)
