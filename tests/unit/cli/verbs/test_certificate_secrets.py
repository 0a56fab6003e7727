"""`bigfleet certs secrets` makes what is missing, renews what ends, and touches nothing else (`packaging#certificate-job`)."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import cast

import pytest
from cryptography import x509

from bigfleet.aio.identity import Identity
from bigfleet.app.bigfleet import PROGRAM
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.dispatch import dispatch
from bigfleet.cli.framework.errors import CommandError
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.verbs.certificate_secrets import SecretsSettings, WantedCertificate, keep_certificates
from bigfleet.kube.errors import ConflictError
from bigfleet.kube.tls_secrets import TlsSecret, TlsSecrets
from bigfleet.transport.authority import Authority

pytestmark = pytest.mark.rule("packaging#certificate-job")
NOW = datetime(2030, 1, 1, tzinfo=UTC)
SHARD = WantedCertificate("shard-tls", Identity.shard("s-0"), ("s-0.shards.fleet.svc",))
ADMIN = WantedCertificate("admin-tls", Identity.parse("bigfleet://admin"), ())


class Namespace:
    """Secrets in memory, and what was written."""

    def __init__(self) -> None:
        self.held: dict[str, TlsSecret] = {}
        self.written: list[str] = []
        self.first: TlsSecret | None = None
        """What another run writes in the moment between our look and our write."""

    async def find(self, name: str) -> TlsSecret | None:
        return self.held.get(name)

    async def write(self, name: str, secret: TlsSecret) -> None:
        self.held[name] = secret
        self.written.append(name)

    async def write_once(self, name: str, secret: TlsSecret, writer: str) -> None:
        if self.first is not None:
            self.held[name] = self.first
            raise ConflictError(f"PATCH {name}", "conflict", status=409)
        await self.write(name, secret)

    def keep(self, *wanted: WantedCertificate, now: datetime = NOW, **flags: object) -> list[str]:
        """Run once and return what became of each Secret, with the reason."""
        self.written.clear()
        settings = SecretsSettings.model_validate({"authority": "ca", **flags})
        secrets = cast("TlsSecrets", self)
        rows = asyncio.run(keep_certificates(secrets, settings, wanted, now, "run-1"))
        return [f"{row['secret']} {row['result']} {row['why'] or ''}".strip() for row in rows]

    def leaf(self, name: str) -> x509.Certificate:
        return x509.load_pem_x509_certificate(self.held[name].cert)


def test_an_empty_namespace_gets_an_authority_and_every_certificate() -> None:
    one = Namespace()
    assert one.keep(SHARD, ADMIN) == ["ca made", "shard-tls signed missing", "admin-tls signed missing"]
    authority = x509.load_pem_x509_certificate(one.held["ca"].cert)
    for name in ("shard-tls", "admin-tls"):
        one.leaf(name).verify_directly_issued_by(authority)
        assert one.held[name].ca == one.held["ca"].cert
    names = one.leaf("shard-tls").extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == ["bigfleet://shard/s-0"]
    assert "s-0.shards.fleet.svc" in names.get_values_for_type(x509.DNSName)


def test_a_second_run_writes_nothing() -> None:
    one = Namespace()
    one.keep(SHARD, ADMIN)
    before = dict(one.held)
    later = NOW + timedelta(days=59)
    assert one.keep(SHARD, ADMIN, now=later) == ["ca kept", "shard-tls kept", "admin-tls kept"]
    assert (one.written, one.held) == ([], before)


def test_what_ends_soon_is_signed_again_by_the_same_authority() -> None:
    one = Namespace()
    one.keep(SHARD)
    authority = one.held["ca"]
    assert one.keep(SHARD, now=NOW + timedelta(days=60)) == ["ca kept", "shard-tls signed ends soon"]
    assert one.held["ca"] == authority
    assert one.leaf("shard-tls").not_valid_after_utc == NOW + timedelta(days=150)


def test_other_names_another_authority_and_damage_are_signed_again() -> None:
    one, other = Namespace(), Namespace()
    one.keep(SHARD)
    other.keep(SHARD)
    good = one.held["shard-tls"]
    wider = replace(SHARD, names=(*SHARD.names, "shard-0.example.org"))
    assert one.keep(wider) == ["ca kept", "shard-tls signed other names"]
    for damaged, why in (
        (other.held["shard-tls"], "other authority"),
        (replace(good, ca=other.held["ca"].cert), "other authority"),
        (replace(good, key=other.held["shard-tls"].key), "key of another"),
        (replace(good, key=b""), "unreadable"),
        (replace(good, cert=b"nonsense"), "unreadable"),
    ):
        one.held["shard-tls"] = damaged
        assert one.keep(SHARD) == ["ca kept", f"shard-tls signed {why}"]


def test_a_secret_of_another_maker_is_never_written() -> None:
    one = Namespace()
    one.keep(SHARD)
    foreign = replace(one.held["shard-tls"], cert=b"theirs", is_ours=False)
    one.held["shard-tls"] = foreign
    with pytest.raises(CommandError, match=r"Secret shard-tls: found one without the label") as raised:
        one.keep(SHARD)
    assert raised.value.code is ExitCode.EXISTS
    assert one.held["shard-tls"] == foreign


def test_an_authority_of_ones_own_signs_and_is_never_made() -> None:
    one = Namespace()
    with pytest.raises(CommandError, match="Secret ca: missing"):
        one.keep(SHARD, make_authority=False)
    own = Authority.create("ours", now=NOW, days=365)
    one.held["ca"] = TlsSecret(own.cert_pem, own.key_pem, is_ours=False)
    assert one.keep(SHARD, make_authority=False) == ["ca kept", "shard-tls signed missing"]
    one.leaf("shard-tls").verify_directly_issued_by(own.certificate)
    assert one.written == ["shard-tls"]


def test_of_two_first_runs_at_once_one_makes_the_authority() -> None:
    one = Namespace()
    faster = Authority.create("faster", now=NOW, days=365)
    one.first = TlsSecret(faster.cert_pem, faster.key_pem, faster.cert_pem)
    assert one.keep(SHARD) == ["ca kept", "shard-tls signed missing"]
    one.leaf("shard-tls").verify_directly_issued_by(faster.certificate)


def test_no_key_is_part_of_a_text() -> None:
    one = Namespace()
    one.keep(SHARD)
    assert "PRIVATE" not in repr(one.held)
    own = Authority.create("ours", now=NOW, days=365)
    assert "key" not in repr(own)
    assert "key" not in repr(own.sign(SHARD.identity, "s", dns_names=(), days=1, now=NOW))


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--certificate=only-a-secret"], "allowed is 'SECRET URI NAME…'"),
        (["--certificate=a bigfleet://root"], "bigfleet://cluster/<id>"),
        (["--certificate=a bigfleet://admin", "--certificate=a bigfleet://admin"], "the Secret a twice"),
        (["--certificate=ca bigfleet://admin"], "the Secret ca twice"),
        (["--days=30"], "--renew-before-days: found 30, allowed is less than --days, 30"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_any_call(argv: list[str], words: str) -> None:
    out, err = StringIO(), StringIO()
    code = dispatch(
        Console(PROGRAM, out, err, {}, lambda: NOW), ["certs", "secrets", "--authority=ca", *argv]
    )
    assert (code, out.getvalue()) == (2, "")
    assert words in err.getvalue()
