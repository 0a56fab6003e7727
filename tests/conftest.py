"""Options of the whole suite."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let golden scripts be answered anew; commit the difference only if you can explain each line of it."""
    parser.addoption("--rewrite", action="store_true", help="write the answers of golden scripts anew")
