import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from bigfleet.aio.identity import ADMIN, READONLY, Identity, Role
from bigfleet.model.errors import InvalidFieldError
from bigfleet.transport.dev_ca import CertificateFileError, create_ca, describe, issue
from tests.support.certificates import Authority, replace_file

NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def ca(tmp_path: Path) -> Path:
    directory = tmp_path / "pki"
    create_ca(directory, now=NOW)
    return directory


def test_an_issued_certificate_carries_one_identity_and_both_usages(ca: Path) -> None:
    made = issue(ca, Identity.shard("eu-1"), dns_names=["shard-0.shard", "10.0.0.7", "localhost"], now=NOW)
    info = describe(made)
    assert (info.role, info.id, info.uris) == (Role.SHARD, "eu-1", ("bigfleet://shard/eu-1",))
    assert info.dns_names == ("localhost", "shard-0.shard")
    assert info.ip_addresses == ("127.0.0.1", "::1", "10.0.0.7")
    assert info.key_usages == ("server", "client")
    assert (info.not_before, info.not_after) == (NOW - timedelta(minutes=5), NOW + timedelta(days=30))
    assert "CN=eu-1" in info.subject
    assert info.issuer == describe(ca / "ca.crt").subject
    assert (info.is_ca, info.problems) == (False, ())


def test_the_signature_is_that_of_the_authority_and_the_key_is_on_p_256(ca: Path) -> None:
    made = issue(ca, ADMIN, now=NOW)
    leaf = x509.load_pem_x509_certificate((made / "tls.crt").read_bytes())
    authority = x509.load_pem_x509_certificate((made / "ca.crt").read_bytes())
    leaf.verify_directly_issued_by(authority)
    key = leaf.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert isinstance(key.curve, ec.SECP256R1)
    assert authority.extensions.get_extension_for_class(x509.BasicConstraints).value.path_length == 0


def test_files_are_named_by_the_contract_and_readable_by_their_owner_only(ca: Path) -> None:
    made = issue(ca, READONLY, name="grafana", now=NOW)
    assert made == ca / "grafana"
    assert sorted(file.name for file in made.iterdir()) == ["ca.crt", "tls.crt", "tls.key"]
    modes = {stat.S_IMODE(file.stat().st_mode) for file in (*made.iterdir(), ca / "ca.key", ca / "ca.crt")}
    assert modes == {0o600}


@pytest.mark.parametrize(
    ("identity", "name"),
    [(Identity.cluster("c"), "c"), (Identity.shard("s"), "s"), (ADMIN, "admin"), (READONLY, "readonly")],
)
def test_the_directory_is_named_after_the_id_or_else_the_role(
    ca: Path, identity: Identity, name: str
) -> None:
    assert issue(ca, identity, now=NOW).name == name


def test_nothing_is_overwritten(ca: Path) -> None:
    before = {file: file.read_bytes() for file in issue(ca, ADMIN, now=NOW).iterdir()}
    with pytest.raises(CertificateFileError, match="not overwritten"):
        issue(ca, ADMIN, now=NOW)
    with pytest.raises(CertificateFileError, match="not overwritten"):
        create_ca(ca, now=NOW)
    assert {file: file.read_bytes() for file in before} == before


def test_a_refusal_leaves_nothing_half_written(ca: Path) -> None:
    (ca / "admin").mkdir()
    (ca / "admin" / "ca.crt").write_text("mine")
    with pytest.raises(CertificateFileError):
        issue(ca, ADMIN, now=NOW)
    assert [file.name for file in (ca / "admin").iterdir()] == ["ca.crt"]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "a b", "é"])
def test_a_name_that_is_no_directory_name_is_refused(ca: Path, name: str) -> None:
    with pytest.raises(InvalidFieldError, match="name"):
        issue(ca, ADMIN, name=name, now=NOW)


def test_an_id_of_dots_needs_a_name(ca: Path) -> None:
    with pytest.raises(InvalidFieldError, match="name"):
        issue(ca, Identity.shard(".."), now=NOW)
    assert issue(ca, Identity.shard(".."), name="dots", now=NOW) == ca / "dots"


@pytest.mark.parametrize("days", [0, -1, 4000])
def test_days_outside_the_life_of_the_authority_are_refused(ca: Path, days: int) -> None:
    with pytest.raises(InvalidFieldError, match="days"):
        issue(ca, ADMIN, days=days, now=NOW)


@pytest.mark.parametrize("name", ["", "a b", "https://x"])
def test_a_dns_name_that_is_none_is_refused(ca: Path, name: str) -> None:
    with pytest.raises(InvalidFieldError, match="dns_names"):
        issue(ca, ADMIN, dns_names=[name], now=NOW)


@pytest.mark.parametrize("missing", ["ca.crt", "ca.key"])
def test_an_authority_that_is_not_there_is_named(ca: Path, missing: str) -> None:
    (ca / missing).unlink()
    with pytest.raises(CertificateFileError, match=missing):
        issue(ca, ADMIN, now=NOW)


def test_an_authority_whose_key_does_not_fit_signs_nothing(ca: Path, tmp_path: Path) -> None:
    create_ca(tmp_path / "other", now=NOW)
    replace_file(ca / "ca.key", tmp_path / "other" / "ca.key")
    with pytest.raises(CertificateFileError, match="is not the key"):
        issue(ca, ADMIN, now=NOW)


def test_a_directory_that_cannot_be_made_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CertificateFileError):
        create_ca(tmp_path / "file" / "below", now=NOW)


def test_problems_of_a_certificate_are_told(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "pki", NOW)
    two = describe(authority.issue_uris("two", ["bigfleet://admin", "bigfleet://readonly"]).cert)
    assert two.role is None
    assert two.uris == ("bigfleet://admin", "bigfleet://readonly")
    assert len(two.problems) == 1
    files = authority.issue(ADMIN)
    replace_file(files.key, authority.issue(READONLY).key)
    assert any("is not the key" in problem for problem in describe(files.cert.parent).problems)


@pytest.mark.parametrize(
    ("now", "problems"),
    [
        (NOW, ()),
        (NOW - timedelta(days=1), ("not valid yet",)),
        (NOW + timedelta(days=31), ("expired",)),
    ],
)
def test_expiry_is_judged_by_the_time_given(ca: Path, now: datetime, problems: tuple[str, ...]) -> None:
    made = issue(ca, ADMIN, now=NOW)
    assert describe(made, now=now).problems == problems
    assert describe(made).problems == ()


def test_what_is_no_certificate_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "x.crt").write_text("nonsense")
    with pytest.raises(CertificateFileError, match="not a PEM certificate"):
        describe(tmp_path / "x.crt")
    with pytest.raises(CertificateFileError, match=r"none\.crt"):
        describe(tmp_path / "none.crt")
