from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bigfleet.aio.clock import nanoseconds
from bigfleet.aio.identity import ADMIN, Identity
from bigfleet.transport.identity import peer_of_certificate
from tests.support.certificates import Authority

NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "pki", NOW)


def test_one_identity_is_found_among_other_names(authority: Authority) -> None:
    pem = authority.issue_uris("x", ["https://example.org", "bigfleet://shard/a"]).cert.read_bytes()
    peer = peer_of_certificate("here", pem)
    assert (peer.secured, peer.identity, peer.problem) == (True, Identity.shard("a"), "")


@pytest.mark.parametrize("uris", [[], ["bigfleet://admin", "bigfleet://shard/a"], ["bigfleet://nobody"]])
def test_none_several_or_malformed_is_a_problem(authority: Authority, uris: list[str]) -> None:
    peer = peer_of_certificate("here", authority.issue_uris("x", uris).cert.read_bytes())
    assert (peer.secured, peer.identity) == (True, None)
    assert peer.problem


@pytest.mark.parametrize("pem", [b"", b"nonsense"])
def test_no_certificate_on_a_secured_edge_is_a_problem_not_plaintext(pem: bytes) -> None:
    peer = peer_of_certificate("here", pem)
    assert (peer.secured, peer.identity) == (True, None)
    assert peer.problem


@pytest.mark.parametrize("version", ["TLSv1.2", "", "TLSv1.1"])
def test_a_good_certificate_below_the_floor_is_a_problem(authority: Authority, version: str) -> None:
    peer = peer_of_certificate("here", authority.issue(ADMIN).cert.read_bytes(), version)
    assert peer.identity is None
    assert "TLSv1.3" in peer.problem


@pytest.mark.rule("wire#tls-ended")
def test_a_certificate_that_has_ended_since_its_handshake_is_a_problem(authority: Authority) -> None:
    pem = authority.issue_uris("x", ["bigfleet://shard/a"], ends=timedelta(hours=1)).cert.read_bytes()
    ends_ns = nanoseconds((NOW + timedelta(hours=1)).timestamp())
    before = peer_of_certificate("here", pem, now_ns=ends_ns)
    assert (before.identity, before.certificate_ends_ns) == (Identity.shard("a"), ends_ns)
    after = peer_of_certificate("here", pem, now_ns=ends_ns + 1)
    assert (after.secured, after.identity) == (True, None)
    assert after.problem == "a certificate that ended at 2030-01-01T01:00:00Z"
