"""Command lines and input files of a test cluster."""

import json

import pytest

from tests.support.control_plane import flags
from tests.support.control_plane.options import (
    ALL_CONTROLLERS,
    OLDEST_MINOR,
    ORDINARY,
    ClusterOptions,
    User,
)


def test_the_api_server_listens_on_loopback_on_the_port_that_is_reserved_for_it() -> None:
    line = flags.api_server(4711, ORDINARY)
    assert "--bind-address=127.0.0.1" in line
    assert "--secure-port=4711" in line
    assert "--permit-port-sharing" in line


def test_etcd_takes_no_tcp_port() -> None:
    urls = [flag.partition("=")[2] for flag in flags.etcd() if "url" in flag or "cluster" in flag]
    assert len(urls) == 5
    assert all("unix://" in url for url in urls)


def test_an_emulated_minor_reaches_all_three_that_must_agree_on_it() -> None:
    old = ClusterOptions(minor=OLDEST_MINOR)
    for line in (flags.api_server(1, old), flags.scheduler("k", old), flags.controllers("k", old)):
        assert f"--emulated-version={OLDEST_MINOR}" in line
    for line in (
        flags.api_server(1, ORDINARY),
        flags.scheduler("k", ORDINARY),
        flags.controllers("k", ORDINARY),
    ):
        assert not [flag for flag in line if "emulated" in flag]


def test_calls_are_recorded_only_when_asked_for() -> None:
    assert not [flag for flag in flags.api_server(1, ORDINARY) if "audit" in flag]
    line = flags.api_server(1, ClusterOptions(audit=True))
    assert f"--audit-log-path={flags.AUDIT_LOG}" in line
    assert json.loads(flags.audit_policy())["rules"] == [{"level": "Metadata"}]


def test_flags_of_the_test_come_last_and_so_win() -> None:
    options = ClusterOptions(
        api_server_flags=("--v=4",), scheduler_flags=("--v=5",), controller_flags=("--v=6",)
    )
    assert flags.api_server(1, options)[-1] == "--v=4"
    assert flags.scheduler("k", options)[-1] == "--v=5"
    assert flags.controllers("k", options)[-1] == "--v=6"


def test_all_controllers_can_be_had() -> None:
    assert "--controllers=*" in flags.controllers("k", ClusterOptions(controllers=ALL_CONTROLLERS))
    assert "--controllers=*" not in flags.controllers("k", ORDINARY)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("", {"--manage-all-nodes"}),
        ("type=fake", {"--manage-all-nodes=false", "--manage-nodes-with-label-selector=type=fake"}),
    ],
)
def test_a_fake_kubelet_has_all_nodes_or_those_of_its_selector(selector: str, expected: set[str]) -> None:
    assert {flag for flag in flags.kwok("k", selector) if "manage" in flag} == expected


def test_users_are_known_by_token_and_only_the_administrator_has_a_group() -> None:
    lines = flags.tokens((User("reader", ("readers", "people")),)).splitlines()
    assert 'admin-token,admin,admin,"system:masters"' in lines
    assert 'nobody-token,nobody,nobody,""' in lines
    assert 'reader-token,reader,reader,"readers,people"' in lines
    assert len([line for line in lines if line.endswith('""')]) == 3


def test_a_kubeconfig_names_the_server_its_authority_and_the_bearer() -> None:
    config = json.loads(flags.kubeconfig("https://127.0.0.1:1", "/d/ca.crt", "reader", "secret"))
    assert config["clusters"][0]["cluster"] == {
        "server": "https://127.0.0.1:1",
        "certificate-authority": "/d/ca.crt",
    }
    assert config["users"] == [{"name": "reader", "user": {"token": "secret"}}]
    assert config["current-context"] == config["contexts"][0]["name"]
