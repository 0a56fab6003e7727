import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bigfleet.aio.identity import ADMIN, READONLY
from bigfleet.transport.tls import PartialTlsError, TlsFiles, TlsMaterialError, TlsStore
from tests.support.certificates import Authority, replace_file, replace_pair

NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ca", NOW)


@pytest.fixture
def files(authority: Authority) -> TlsFiles:
    return authority.issue(ADMIN)


def test_all_flags_or_none() -> None:
    assert TlsFiles.from_flags("", "", "") is None
    assert TlsFiles.from_flags("c", "k", "a") == TlsFiles(Path("c"), Path("k"), Path("a"))


@pytest.mark.rule("shard#tls", "shard#partial-tls")
@pytest.mark.parametrize(
    ("flags", "missing"),
    [
        (("c", "", ""), "--tls-key, --tls-ca"),
        (("", "k", "a"), "--tls-cert"),
        (("c", "k", ""), "--tls-ca"),
    ],
)
def test_a_partial_set_names_what_is_missing(flags: tuple[str, str, str], missing: str) -> None:
    with pytest.raises(PartialTlsError) as caught:
        TlsFiles.from_flags(*flags)
    assert caught.value.field == missing


def test_an_unchanged_pair_is_the_same_object(files: TlsFiles) -> None:
    store = TlsStore(files, print)
    assert store.pair() is store.pair()
    assert store.pair().not_after == NOW + timedelta(days=30)


def test_a_new_pair_is_read_after_the_files_changed(authority: Authority, files: TlsFiles) -> None:
    store = TlsStore(files, print)
    before = store.pair()
    after = authority.issue(READONLY)
    replace_pair(files, after)
    assert store.pair() is not before
    assert store.pair().cert_pem == after.cert.read_bytes()


def test_a_pair_swapped_behind_a_link_with_the_same_time_is_noticed(
    authority: Authority, files: TlsFiles, tmp_path: Path
) -> None:
    after = authority.issue(READONLY)
    for old, new in ((files.cert, after.cert), (files.key, after.key)):
        os.utime(old, ns=(1, 1))
        os.utime(new, ns=(1, 1))
    mounted = tmp_path / "..data"
    mounted.symlink_to(files.cert.parent)
    store = TlsStore(TlsFiles(mounted / "tls.crt", mounted / "tls.key", mounted / "ca.crt"), print)
    (tmp_path / "..next").symlink_to(after.cert.parent)
    os.replace(tmp_path / "..next", mounted)
    assert store.pair().cert_pem == after.cert.read_bytes()


DAMAGES: dict[str, Callable[[TlsFiles, TlsFiles], object]] = {
    "mismatched key": lambda files, other: replace_file(files.key, other.key),
    "mismatched certificate": lambda files, other: replace_file(files.cert, other.cert),
    "missing certificate": lambda files, _: files.cert.unlink(),
    "missing key": lambda files, _: files.key.unlink(),
    "empty certificate": lambda files, _: files.cert.write_bytes(b""),
    "half a key": lambda files, _: files.key.write_bytes(files.key.read_bytes()[:80]),
    "a binary": lambda files, _: files.key.write_bytes(bytes(range(256))),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_useless_files_keep_the_last_good_pair_and_are_told_once(
    authority: Authority, files: TlsFiles, damage: str
) -> None:
    problems: list[str] = []
    store = TlsStore(files, problems.append)
    before = store.pair()
    secret = before.key_pem.decode().splitlines()[1]
    DAMAGES[damage](files, authority.issue(READONLY))
    for _ in range(3):
        assert store.pair() is before
    assert len(problems) == 1
    assert secret not in problems[0]
    assert str(files.cert.parent) in problems[0]


def test_a_pair_is_tried_again_until_it_fits(authority: Authority, files: TlsFiles) -> None:
    problems: list[str] = []
    store = TlsStore(files, problems.append)
    after = authority.issue(READONLY)
    replace_file(files.key, after.key)
    store.pair()
    replace_file(files.cert, after.cert)
    assert store.pair().cert_pem == after.cert.read_bytes()
    files.key.unlink()
    store.pair()
    assert len(problems) == 2  # a good pair in between makes the next problem a new one


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_first_load_must_succeed(authority: Authority, files: TlsFiles, damage: str) -> None:
    DAMAGES[damage](files, authority.issue(READONLY))
    with pytest.raises(TlsMaterialError, match=r"tls\.(crt|key)"):
        TlsStore(files, print)


@pytest.mark.parametrize("content", ["", "nonsense"])
def test_an_authority_bundle_must_hold_certificates(files: TlsFiles, content: str) -> None:
    files.ca.write_text(content)
    with pytest.raises(TlsMaterialError, match=r"ca\.crt"):
        TlsStore(files, print)


def test_a_fresh_authority_bundle_falls_back_to_the_one_of_the_start(files: TlsFiles) -> None:
    problems: list[str] = []
    store = TlsStore(files, problems.append)
    files.ca.write_text("half writ")
    assert store.fresh_ca_pem() == store.ca_pem
    assert len(problems) == 1


def test_a_pair_does_not_show_its_key(files: TlsFiles) -> None:
    pair = TlsStore(files, print).pair()
    assert "PRIVATE" not in repr(pair)
    assert "2030-01-31" in repr(pair)


@pytest.mark.rule("packaging#warnings-at-start")
def test_a_key_that_every_user_may_read_is_taken_with_a_warning(files: TlsFiles) -> None:
    heard: list[str] = []
    TlsStore(files, pytest.fail, heard.append)
    assert heard == []
    files.key.chmod(0o644)
    TlsStore(files, pytest.fail, heard.append)
    (warning,) = heard
    assert warning.startswith(f"{files.key}: found mode 0644")


@pytest.mark.rule("packaging#given-files")
def test_a_key_that_became_a_pipe_keeps_the_last_good_pair(files: TlsFiles) -> None:
    problems: list[str] = []
    store = TlsStore(files, problems.append)
    before = store.pair()
    files.key.unlink()
    os.mkfifo(files.key)
    assert store.pair() is before
    assert problems == [f"{files.key}: found a pipe, a socket or a device, allowed is a regular file"]
