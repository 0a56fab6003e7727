"""Processes forked by the nursery end as any other: with their code, by a signal, or with the nursery."""

import signal
from pathlib import Path

import pytest

from tests.support.coordinator.nursery import PROGRAM, Forked, Nursery
from tests.support.coordinator.processes import settled_port

pytestmark = pytest.mark.integration


def coordinator(nursery: Nursery, directory: Path) -> Forked:
    flags = ["--bootstrap", "--data-dir", str(directory / "data"), "--metrics-addr", "0"]
    flags += ["--listen", f"127.0.0.1:{settled_port()}", "--raft-bind", "127.0.0.1:0"]
    return nursery.start(PROGRAM, ["coordinator", *flags], directory / "log")


def test_children_have_codes_logs_and_signals_and_end_with_the_nursery(tmp_path: Path) -> None:
    nursery = Nursery()
    try:
        said = nursery.start(PROGRAM, ["version"], tmp_path / "version")
        assert said.wait(60) == 0
        assert "bigfleet" in (tmp_path / "version").read_text()
        assert nursery.start(PROGRAM, ["no-such-command"], tmp_path / "wrong").wait(60) == 2
        killed = coordinator(nursery, tmp_path)
        assert killed.poll() is None
        killed.kill()
        assert killed.wait(60) == -signal.SIGKILL
        killed.send_signal(signal.SIGTERM)  # harmless once it has ended
        left = coordinator(nursery, tmp_path)
        with pytest.raises(TimeoutError):
            left.wait(0)
    finally:
        nursery.close()
    assert left.has_ended(60)
