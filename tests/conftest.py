"""Options of the whole suite."""

import json
import platform
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A law is about answers, not about how busy the machine is that checks it.
settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let golden scripts be answered anew; commit the difference only if you can explain each line of it."""
    parser.addoption("--rewrite", action="store_true", help="write the answers of golden scripts anew")
    parser.addoption(
        "--screenshots",
        metavar="DIR",
        help="let tests in a browser keep pictures of every page in this directory",
    )
    parser.addoption(
        "--evidence", metavar="DIR", help="let long runs write what they have shown into this directory"
    )


@pytest.fixture
def evidence(pytestconfig: pytest.Config) -> Callable[[str, Mapping[str, object]], None]:
    """Return where a long run leaves its figures: a line of a file of that name, if a directory was given.

    Rules: `coordinator#throughput`.
    """

    def keep(name: str, figures: Mapping[str, object]) -> None:
        line = json.dumps({**figures, "python": platform.python_version()})
        print(line)
        directory = pytestconfig.getoption("--evidence")
        if directory:
            with (Path(directory) / name).open("a", encoding="utf-8") as file:
                file.write(line + "\n")

    return keep


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say once, after all the rest, what was left out for want of the test control plane, and how to get it."""
    skipped = terminalreporter.stats.get("skipped", ())
    wanting = sum("make testbed" in str(report.longrepr) for report in skipped)
    if wanting:
        terminalreporter.write_line(
            f"{wanting} tests were skipped as they need the test control plane; `make testbed` builds it, once"
        )
