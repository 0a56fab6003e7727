import pytest

from bigfleet.obs.masking import MASK, looks_secret, mask_secrets, masked


@pytest.mark.parametrize(
    "key",
    [
        "password",
        "raft_secret",
        "raftSecret",
        "TOKEN",
        "fencing_tokens",
        "tls_key",
        "key",
        "bootstrap_blob",
        "Bootstrap",
        "apiKey",
        "API_KEY",
    ],
)
def test_a_key_with_a_secret_word_looks_secret(key: str) -> None:
    assert looks_secret(key)


@pytest.mark.parametrize(
    "key", ["cluster", "monkey", "tokenizer", "topology_key", "supersedes_key", "keyboard", "event"]
)
def test_other_keys_do_not(key: str) -> None:
    assert not looks_secret(key)


def test_masking_goes_to_any_depth_and_leaves_the_rest_alone() -> None:
    line = {"a": {"b": [{"token": "x", "n": 1}]}, "secret": "y", "count": 3, "tokens": None, "key": False}
    assert mask_secrets(None, "info", line) == {
        "a": {"b": [{"token": MASK, "n": 1}]},
        "secret": MASK,
        "count": 3,
        "tokens": None,
        "key": False,
    }


def test_bytes_are_told_by_their_number_only() -> None:
    assert masked(b"\x00\x01") == "<2 bytes>"
    assert masked(bytearray(5)) == "<5 bytes>"


def test_user_and_password_of_a_url_are_masked() -> None:
    assert (
        masked("see https://alice:pw@host/x and http://host/y")
        == f"see https://{MASK}@host/x and http://host/y"
    )
