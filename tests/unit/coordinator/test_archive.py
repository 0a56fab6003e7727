"""Archives: layout, checks, both ways.

Rules: `coordinator#archive`, `coordinator#restore`, `coordinator#relearn`, `coordinator#original-archives`.
"""

import io
import json
import tarfile

import pytest

from bigfleet.coordinator.archive import (
    Archive,
    CorruptArchiveError,
    join_archive,
    make_archive,
    pack,
    tables_of,
    unpack,
)
from bigfleet.coordinator.core import commands
from bigfleet.coordinator.core.state_machine import CoordinatorStateMachine
from bigfleet.coordinator.log import Snapshot, Tables
from tests.support.coordinator.unproposed_commands import bind_cluster, move_begin

NOW_NS = 1_794_938_400_123_000_000


def state_machine() -> CoordinatorStateMachine:
    """A machine with a row in every table."""
    made = CoordinatorStateMachine()
    for item in (
        commands.begin_epoch(7, "n-0", "c-id"),
        commands.add_shard("s-1", "s-1:7780", 1_794_938_400_000_000_001),
        commands.add_shard("s-2", "", 6),
        commands.add_shard("gone", "", 7),
        bind_cluster("blue", "s-1"),
        commands.assign_domain("rack", "r2", "s-1"),
        commands.assign_domain("rack", "r1", "s-2"),
        commands.assign_domain("zone", "ä", "s-1"),
        move_begin("p:9000", {"m-1": "r1"}, key="rack", from_shard="s-1", to_shard="s-2", flow="f1", at_ns=9),
        commands.remove_shard("gone", destroyed=False, partitioned=True),
    ):
        answer = made.apply(json.dumps({"v": 1, "epoch": made.epoch, "items": [item]}))
        assert json.loads(answer)[0]["ok"], answer
    return made


def archive(tables: Tables | None = None) -> Archive:
    return make_archive(Snapshot(tables or state_machine().dump(), 41, 7), ("n-0", "n-1", "n-2"), NOW_NS)


def tar_of(*members: tuple[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


@pytest.mark.rule("coordinator#original-archives")
def test_an_archive_has_the_originals_layout_and_keys() -> None:
    with tarfile.open(fileobj=io.BytesIO(pack(archive()))) as tar:
        members = tar.getmembers()
        assert [(member.name, member.mode) for member in members] == [("meta.json", 0o644), ("state", 0o644)]
        contents = [tar.extractfile(member) for member in members]
        meta, state = (json.loads(content.read()) for content in contents if content is not None)
    assert {key: meta[key] for key in ("Version", "ID", "Index", "Term", "Size")} == {
        "Version": 1,
        "ID": "7-41-1794938400123",
        "Index": 41,
        "Term": 7,
        "Size": len(archive().state),
    }
    assert len(meta["bigfleet"].pop("meta_sha256")) == 64
    assert meta["bigfleet"] == {
        "format": 1,
        "level": 1,
        "cluster_id": "c-id",
        "incarnation": 1,
        "epoch": 7,
        "voters": ["n-0", "n-1", "n-2"],
        "sha256": archive().sha256,
        "created_at": "2026-11-17T18:00:00.123Z",
    }
    assert state["shards"] == [
        {
            "ID": "s-1",
            "Address": "s-1:7780",
            "RegisteredAt": "2026-11-17T18:00:00.000000001Z",
            "LastHeartbeat": "0001-01-01T00:00:00Z",
        },
        {
            "ID": "s-2",
            "Address": "",
            "RegisteredAt": "1970-01-01T00:00:00.000000006Z",
            "LastHeartbeat": "0001-01-01T00:00:00Z",
        },
    ]
    assert state["cluster_to_shard"] == {"blue": "s-1"}
    assert state["domain_to_shard"] == [
        {"domain": {"Key": "rack", "Value": "r2"}, "shard": "s-1"},
        {"domain": {"Key": "zone", "Value": "ä"}, "shard": "s-1"},
        {"domain": {"Key": "rack", "Value": "r1"}, "shard": "s-2"},
    ]
    assert (state["ghosts"], state["move_seq"], len(state["moves"])) == (["gone"], 1, 1)


def test_every_table_survives_archive_and_restore() -> None:
    before = state_machine().dump()
    restored = CoordinatorStateMachine()
    restored.load(tables_of(unpack(pack(archive(before))), cluster_id="unused"))
    after = restored.dump()
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"incarnation", "relearn", "epoch_owner"}
    assert (after["incarnation"], after["relearn"], after["epoch_owner"]) == (2, True, "")


def test_many_rows_survive_their_slices() -> None:
    tables = {**state_machine().dump(), "domains": {"rack": {f"r{n:05}": "s-1" for n in range(5001)}}}
    restored = tables_of(unpack(pack(archive(tables))), cluster_id="unused")
    assert restored["domains"] == tables["domains"]


@pytest.mark.rule("coordinator#original-archives")
def test_an_archive_of_the_original_restores_with_its_old_keys_ignored() -> None:
    state = json.dumps(
        {
            "shards": [
                {
                    "ID": "s-1",
                    "Address": "s-1:7780",
                    "RegisteredAt": "2026-06-12T10:00:00.5+02:00",
                    "LastHeartbeat": "2026-06-12T10:00:01Z",
                }
            ],
            "cluster_to_shard": None,
            "domain_to_shard": [{"domain": {"Key": "rack", "Value": "r1"}, "shard": "s-1"}],
            "quotas": [{"Provider": "p", "Region": "r"}],
            "providers": [{"Name": "p"}],
        }
    ).encode()
    meta = {"Version": 1, "ID": "2-9-1", "Index": 9, "Term": 2, "Size": len(state), "Peers": "gA=="}
    packed = tar_of(("meta.json", json.dumps(meta).encode()), ("state", state))
    tables = tables_of(unpack(packed), cluster_id="minted")
    assert (tables["cluster_id"], tables["epoch"], tables["incarnation"]) == ("minted", 2, 1)
    assert tables["shards"]["s-1"].address == "s-1:7780"
    assert tables["domains"] == {"rack": {"r1": "s-1"}}
    CoordinatorStateMachine().load(tables)


@pytest.mark.rule("coordinator#archive")
def test_a_flipped_byte_anywhere_is_noticed_or_harmless() -> None:
    good = pack(archive())
    used = 512 + 1024 + 512 + len(archive().state)
    noticed = 0
    for offset in range(0, len(good), 3):
        damaged = bytearray(good)
        damaged[offset] ^= 0x01
        try:
            assert unpack(bytes(damaged)) == archive(), offset
        except CorruptArchiveError:
            noticed += 1
    assert noticed > used / 3 * 0.7  # the rest is padding between and behind the members


def test_every_flipped_bit_of_the_state_is_noticed() -> None:
    good = archive()
    for offset in range(len(good.state)):
        damaged = bytearray(good.state)
        damaged[offset] ^= 0x10
        with pytest.raises(CorruptArchiveError, match="checksum"):
            join_archive(good.meta.text(), bytes(damaged))


STATE = b'{"shards":[]}'
META = json.dumps({"Version": 1, "ID": "x", "Index": 1, "Term": 1, "Size": len(STATE)}).encode()


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ([("state", STATE), ("meta.json", META)], "allowed is meta.json and then state"),
        ([("meta.json", META)], "allowed is meta.json and then state"),
        ([], "allowed is meta.json and then state"),
        ([("meta.json", META.replace(b'"Index": 1', b'"Index": 0')), ("state", STATE)], "Index from 1"),
        ([("meta.json", META.replace(b'"Index": 1', b'"Index": "1"')), ("state", STATE)], "whole numbers"),
        ([("meta.json", b"{}"), ("state", STATE)], "no metadata"),
        ([("meta.json", b"[1]"), ("state", STATE)], "no metadata"),
        ([("meta.json", b"\xff"), ("state", STATE)], "no metadata"),
        ([("meta.json", META), ("state", STATE + b" ")], "found 14 bytes, meta.json says 13"),
        ([("meta.json", META[:-1] + b', "bigfleet": 3}'), ("state", STATE)], "allowed is an object"),
    ],
)
def test_what_is_no_whole_archive_is_refused(members: list[tuple[str, bytes]], problem: str) -> None:
    with pytest.raises(CorruptArchiveError, match=problem):
        unpack(tar_of(*members))


@pytest.mark.parametrize("cut", [1, 100, 600, 1100, 1500])
def test_an_archive_cut_off_is_refused(cut: int) -> None:
    with pytest.raises(CorruptArchiveError):
        unpack(pack(archive())[:cut])


@pytest.mark.parametrize(
    "state",
    [
        b"[]",
        b'{"shards":{}}',
        b'{"shards":[{"ID":"s"}]}',
        b'{"shards":[{"ID":"s","Address":"a","RegisteredAt":"never"}]}',
        b'{"domain_to_shard":[{"domain":{"Key":"k","Value":"v"},"shard":"nobody"}]}',
        b'{"cluster_to_shard":{"blue":"nobody"}}',
        b'{"ghosts":[7]}',
        b'{"moves":[{}]}',
    ],
)
def test_rows_that_break_an_invariant_make_it_corrupt(state: bytes) -> None:
    meta = json.dumps({"Version": 1, "ID": "x", "Index": 1, "Term": 1, "Size": len(state)}).encode()
    with pytest.raises(CorruptArchiveError, match=r"^state: "):
        tables_of(join_archive(meta, state), cluster_id="c")


def entry(name: bytes, size: bytes, kind: bytes = b"0", content: bytes = b"") -> bytes:
    """One entry of a tar file, with a right checksum."""
    header = bytearray(512)
    header[: len(name)], header[124 : 124 + len(size)], header[156:157] = name, size, kind
    header[148:156] = b"%06o\0 " % (sum(header) + 8 * ord(" "))
    return bytes(header) + content + bytes(-len(content) % 512)


NOTE = b"30 mtime=1794938400.123456789\n"


@pytest.mark.parametrize("kind", [b"x", b"g"])
def test_the_notes_that_some_programs_put_before_a_file_are_stepped_over(kind: bytes) -> None:
    note = entry(b"PaxHeader", b"%011o" % len(NOTE), kind, NOTE)
    assert unpack(note + tar_of(("meta.json", META), ("state", STATE))).state == STATE
    with pytest.raises(CorruptArchiveError, match="found PaxHeader"):
        unpack(note * 5 + tar_of(("meta.json", META), ("state", STATE)))


@pytest.mark.parametrize(
    ("packed", "problem"),
    [
        (entry(b"meta.json", b"\x80" + b"\xff" * 11), "found no size"),
        (entry(b"meta.json", b"-1"), "found no size"),
        (entry(b"meta.json", b"77777777777"), "cut off after 10240 of 8589934591 bytes"),
        (entry(b"meta.json", b"0" * 11, b"S"), "as plain files"),
        (entry(b"meta.json", b"0" * 11, b"2"), "as plain files"),
        (entry(b"../../etc/passwd", b"0" * 11), r"found \.\./\.\./etc/passwd"),
        (b"\0" * 512, "the end of the file"),
        (b"x" * 512, "the checksum of a header does not match"),
    ],
)
def test_a_header_that_lies_is_refused(packed: bytes, problem: str) -> None:
    with pytest.raises(CorruptArchiveError, match=problem):
        unpack(packed + tar_of(("meta.json", META), ("state", STATE)))


def test_metadata_and_state_of_endless_brackets_are_refused() -> None:
    deep = b"[" * 100_000
    with pytest.raises(CorruptArchiveError, match="no metadata"):
        unpack(tar_of(("meta.json", deep), ("state", STATE)))
    meta = META.replace(b'"Size": 13', b'"Size": 100000')
    with pytest.raises(CorruptArchiveError, match="RecursionError"):
        tables_of(unpack(tar_of(("meta.json", meta), ("state", deep))), cluster_id="x")
