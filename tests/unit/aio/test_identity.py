import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigfleet.aio.identity import ADMIN, READONLY, Identity, Role
from bigfleet.model.errors import InvalidFieldError

IDS = st.text("ABCXYZabcxyz0123456789._-", min_size=1)


@pytest.mark.parametrize(
    ("uri", "identity"),
    [
        ("bigfleet://cluster/prod-eu.1", Identity(Role.CLUSTER, "prod-eu.1")),
        ("bigfleet://shard/a_b", Identity(Role.SHARD, "a_b")),
        ("bigfleet://admin", ADMIN),
        ("bigfleet://readonly", READONLY),
    ],
)
def test_an_identity_is_read_and_spelled_the_same(uri: str, identity: Identity) -> None:
    assert Identity.parse(uri) == identity
    assert str(identity) == uri


@given(st.sampled_from([Role.CLUSTER, Role.SHARD]), IDS)
def test_every_legal_id_survives_the_uri(role: Role, id_: str) -> None:
    assert Identity.parse(str(Identity(role, id_))) == Identity(role, id_)


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "admin",
        "bigfleet://",
        "bigfleet://cluster",
        "bigfleet://cluster/",
        "bigfleet://cluster/a/b",
        "bigfleet://cluster/a b",
        "bigfleet://cluster/a%2Fb",
        "bigfleet://cluster/a?x=1",
        "bigfleet://cluster/é",
        "bigfleet://cluster/a\n",
        "bigfleet://admin/",
        "bigfleet://admin/x",
        "bigfleet://Admin",
        "BIGFLEET://admin",
        "bigfleet:admin",
        "bigfleet://node/a",
        " bigfleet://admin",
    ],
)
def test_anything_else_is_refused(uri: str) -> None:
    with pytest.raises(InvalidFieldError):
        Identity.parse(uri)


@pytest.mark.parametrize(("role", "id_"), [(Role.SHARD, ""), (Role.CLUSTER, "a/b"), (Role.ADMIN, "x")])
def test_an_identity_that_no_uri_can_carry_cannot_be_made(role: Role, id_: str) -> None:
    with pytest.raises(InvalidFieldError, match=str(role)):
        Identity(role, id_)
