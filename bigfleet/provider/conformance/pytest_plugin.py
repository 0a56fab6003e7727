"""A pytest plugin: one test per behaviour, against a provider that is already running.

Why: authors of providers want the behaviours in the suite they have, with its selection and its reports.

    pytest -p bigfleet.provider.conformance.pytest_plugin --bigfleet-target 127.0.0.1:9000 -k B3

Must never: add tests where `--bigfleet-target` was not given.
Rules: `providers#conformance`.
"""

import asyncio
from collections.abc import Iterator

import pytest

from bigfleet.model.errors import InvalidFieldError
from bigfleet.provider.conformance.behaviour import Behaviour
from bigfleet.provider.conformance.catalogue import selected
from bigfleet.provider.conformance.render import failure_text
from bigfleet.provider.conformance.report import BehaviourResult, BehaviourStatus
from bigfleet.provider.conformance.run import run
from bigfleet.provider.conformance.settings import ConformanceProfile, RunSettings
from bigfleet.provider.conformance.system import system_settings


def pytest_addoption(parser: pytest.Parser) -> None:
    """Say which provider is to be tested, and as what."""
    group = parser.getgroup("bigfleet", "conformance of a BigFleet provider")
    group.addoption(
        "--bigfleet-target", metavar="HOST:PORT", help="provider to test; its machines are changed"
    )
    group.addoption(
        "--bigfleet-profile", default="core,cloud,spot", help="profiles, with commas between them"
    )
    group.addoption("--bigfleet-seed", type=int, default=1, help="seed of everything that is drawn by lot")
    group.addoption(
        "--bigfleet-machines", default="*", metavar="GLOB", help="machine ids that may be touched"
    )
    group.addoption("--bigfleet-fault-target", default="", metavar="HOST:PORT", help="for the profile fault")


@pytest.hookimpl(tryfirst=True)  # before -k and -m choose among what there is
def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    """Add the behaviours to the tests that were found."""
    if session.config.getoption("--bigfleet-target"):
        suite = ConformanceSuite.from_parent(session, name="conformance", nodeid="conformance")
        items.extend(suite.collect())


class ConformanceSuite(pytest.Collector):
    """All behaviours that the profiles demand."""

    def collect(self) -> Iterator["BehaviourItem"]:
        settings = _settings(self.config)
        for behaviour in selected(settings):
            yield BehaviourItem.from_parent(self, name=behaviour.id, behaviour=behaviour)


class BehaviourItem(pytest.Item):
    """One behaviour as a test."""

    def __init__(self, *, behaviour: Behaviour, **given: object) -> None:
        super().__init__(**given)  # type: ignore[arg-type]  # pytest's own arguments, passed on
        self.behaviour = behaviour

    def runtest(self) -> None:
        settings = _settings(self.config, self.behaviour.id)
        report = asyncio.run(run(str(self.config.getoption("--bigfleet-target")), settings))
        result = report.result(self.behaviour.id)
        if result.status is BehaviourStatus.FAILED:
            raise BehaviourFailed(result)
        if result.status is not BehaviourStatus.PASSED:
            pytest.skip(f"{result.status}: {result.message}")

    def repr_failure(
        self,
        excinfo: pytest.ExceptionInfo[BaseException],
        style: object = None,  # noqa: ARG002 - pytest's signature
    ) -> str:
        if isinstance(excinfo.value, BehaviourFailed):
            return failure_text(excinfo.value.result)
        return str(excinfo.value)

    def reportinfo(self) -> tuple[str, int | None, str]:
        return "conformance", None, f"{self.behaviour.title}: {self.behaviour.meaning}"


class BehaviourFailed(Exception):  # noqa: N818  the word pytest users know
    """A behaviour failed; carries its result."""

    def __init__(self, result: BehaviourResult) -> None:
        super().__init__(result.message)
        self.result = result


def _settings(config: pytest.Config, *only: str) -> RunSettings:
    names = [name.strip() for name in str(config.getoption("--bigfleet-profile")).split(",")]
    try:
        profiles = tuple(ConformanceProfile(name) for name in names)
    except ValueError:
        allowed = ", ".join(ConformanceProfile)
        raise pytest.UsageError(
            str(InvalidFieldError("--bigfleet-profile", ",".join(names), allowed))
        ) from None
    return system_settings(
        profiles=profiles,
        seed=int(config.getoption("--bigfleet-seed")),
        machines=str(config.getoption("--bigfleet-machines")),
        fault_target=str(config.getoption("--bigfleet-fault-target")),
        only=only,
    )
