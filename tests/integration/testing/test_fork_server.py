"""Processes forked by the fork server end as any other: with their code, by a signal, or with the fork server."""

import signal
from pathlib import Path

import pytest

from tests.support.coordinator.fork_server import PROGRAM, ForkedProcess, ForkServer
from tests.support.coordinator.processes import settled_port

pytestmark = pytest.mark.integration


def coordinator(server: ForkServer, directory: Path) -> ForkedProcess:
    flags = ["--bootstrap", "--data-dir", str(directory / "data"), "--metrics-addr", "0"]
    flags += ["--listen", f"127.0.0.1:{settled_port()}", "--raft-bind", "127.0.0.1:0"]
    return server.start(PROGRAM, ["coordinator", *flags], directory / "log")


def test_children_have_codes_logs_and_signals_and_end_with_the_fork_server(tmp_path: Path) -> None:
    server = ForkServer()
    try:
        said = server.start(PROGRAM, ["version"], tmp_path / "version")
        assert said.wait(60) == 0
        assert "bigfleet" in (tmp_path / "version").read_text()
        assert server.start(PROGRAM, ["no-such-command"], tmp_path / "wrong").wait(60) == 2
        killed = coordinator(server, tmp_path)
        assert killed.poll() is None
        killed.kill()
        assert killed.wait(60) == -signal.SIGKILL
        killed.send_signal(signal.SIGTERM)  # harmless once it has ended
        left = coordinator(server, tmp_path)
        with pytest.raises(TimeoutError):
            left.wait(0)
    finally:
        server.close()
    assert left.has_ended(60)
