"""Certificates of a test cluster."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from tests.support.control_plane.credentials import make_credentials

NOW = datetime(2030, 1, 2, tzinfo=UTC)


def test_the_server_is_signed_by_the_authority_and_named_by_its_address() -> None:
    made = make_credentials(NOW)
    ca, server = (x509.load_pem_x509_certificate(pem) for pem in (made.ca, made.server_cert))
    server.verify_directly_issued_by(ca)
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.IPAddress) == [ip_address("127.0.0.1")]
    assert "kubernetes.default.svc" in names.get_values_for_type(x509.DNSName)
    assert server.not_valid_before_utc < NOW < NOW + timedelta(days=1) < server.not_valid_after_utc
    key = serialization.load_pem_private_key(made.server_key, None)
    assert key.public_key() == server.public_key()


def test_no_two_clusters_have_a_key_in_common() -> None:
    first, second = make_credentials(NOW), make_credentials(NOW)
    assert first.ca != second.ca
    assert first.service_account_key != second.service_account_key
    assert first.service_account_key != first.server_key
