"""The resident size of the process."""

from pathlib import Path

import pytest

from bigfleet.bench import memory
from bigfleet.bench.memory import UnknownMemoryError, resident_bytes


def test_what_is_held_is_counted_and_what_is_given_back_is_not() -> None:
    before = resident_bytes()
    held = bytearray(64 * 2**20)
    held[::4096] = b"x" * len(held[::4096])
    during = resident_bytes()
    del held
    assert during - before > 60 * 2**20
    assert resident_bytes() - before < 30 * 2**20


@pytest.mark.parametrize("content", [None, "Pss: 12 kB\n"])
def test_a_kernel_that_tells_nothing_is_said_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str | None
) -> None:
    path = tmp_path / "figures"
    if content is not None:
        path.write_text(content)
    monkeypatch.setattr(memory, "_FIGURES", path)
    with pytest.raises(UnknownMemoryError, match="benchmarks run on Linux only"):
        resident_bytes()
