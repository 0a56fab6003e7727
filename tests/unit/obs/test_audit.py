"""The audit file (`shard#audit-log`, `packaging#shard-flags`)."""

import json

import pytest

from bigfleet.aio.disk import DiskError
from bigfleet.obs.audit import AuditFile, NoAudit
from bigfleet.testing.disk.virtual_disk import MemoryDisk

NOW_NS = 1_893_456_000_123_456_789


def audit(disk: MemoryDisk, **options: int) -> AuditFile:
    return AuditFile(disk, "/audit.log", now_ns=lambda: NOW_NS, **options)


def lines(disk: MemoryDisk, name: str = "/audit.log") -> list[dict[str, object]]:
    return [json.loads(line) for line in disk.read(name).decode().splitlines()]


def test_a_record_is_one_line_with_time_level_and_message_first() -> None:
    disk = MemoryDisk()
    audit(disk).record(cycle=7, kind="Drain", machine="m-ü", grace_seconds=30)
    assert disk.read("/audit.log").decode() == (
        '{"time":"2030-01-01T00:00:00.123456789Z","level":"INFO","msg":"action","cycle":7,"kind":"Drain",'
        '"machine":"m-ü","grace_seconds":30}\n'
    )


def test_records_are_appended_to_what_a_life_before_wrote() -> None:
    disk = MemoryDisk()
    for number in (1, 2):
        file = audit(disk)
        file.record(cycle=number)
        file.close()
    assert [line["cycle"] for line in lines(disk)] == [1, 2]


def test_a_full_file_begins_anew_and_so_many_old_ones_are_kept() -> None:
    disk = MemoryDisk()
    file = audit(disk, max_bytes=200, keep=2)
    for number in range(12):
        file.record(cycle=number)
    assert disk.list_names("/") == ("audit.log", "audit.log.1", "audit.log.2")
    kept = [
        line["cycle"]
        for name in ("audit.log.2", "audit.log.1", "audit.log")
        for line in lines(disk, f"/{name}")
    ]
    assert kept == list(range(kept[0], 12))  # type: ignore[call-overload]  # a number, as it was written


def test_with_none_to_keep_the_file_just_begins_anew() -> None:
    disk = MemoryDisk()
    file = audit(disk, max_bytes=100, keep=0)
    for number in range(5):
        file.record(cycle=number)
    assert disk.list_names("/") == ("audit.log",)


def test_a_record_that_does_not_fit_on_the_disk_is_told_and_leaves_no_torn_line() -> None:
    disk = MemoryDisk()
    file = audit(disk)
    file.record(cycle=1)
    disk.image.quota_bytes = file_size = len(disk.read("/audit.log")) + 10
    with pytest.raises(DiskError, match="no space left"):
        file.record(cycle=2)
    disk.image.quota_bytes = file_size * 10
    file.record(cycle=3)
    assert [line["cycle"] for line in lines(disk)] == [1, 3]


def test_a_file_that_cannot_be_opened_is_refused_at_start() -> None:
    disk = MemoryDisk()
    with pytest.raises(DiskError, match="no such file or directory"):
        AuditFile(disk, "/missing/audit.log", now_ns=lambda: 0)


def test_without_an_audit_nothing_is_kept() -> None:
    none = NoAudit()
    none.record(cycle=1)
    none.close()
