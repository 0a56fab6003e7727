import pytest

from bigfleet.app import bigfleet, bigfleetctl
from bigfleet.version import __version__


def test_main_takes_its_arguments_and_returns_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert bigfleet.main(["--version"]) == 0
    assert bigfleetctl.main(["nothing"]) == 2
    captured = capsys.readouterr()
    assert captured.out == f"bigfleet {__version__}\n"
    assert captured.err.startswith("bigfleetctl: unknown command 'nothing'")


def test_main_without_arguments_takes_those_of_the_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["bigfleetctl", "--help"])
    assert bigfleetctl.main() == 0
    assert "Usage:" in capsys.readouterr().out
