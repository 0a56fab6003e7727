"""README and its neighbours keep their promises."""

import re
from pathlib import Path

from bigfleet.app import bigfleet, bigfleetctl

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_first_commands_of_the_readme_are_the_two_that_set_it_up() -> None:
    first = re.search(r"```sh\n(.*?)```", README, re.DOTALL)
    assert first is not None
    assert [line.split("#")[0].strip() for line in first[1].splitlines()] == ["make run", "make test"]


def test_every_command_that_a_page_shows_exists() -> None:
    programs = {program.name: program for program in (bigfleet.PROGRAM, bigfleetctl.PROGRAM)}
    for page in (ROOT / "README.md", ROOT / "docs" / "reference" / "cli.md"):
        for name, words in re.findall(
            r"^(?:\$ |\.venv/bin/)+(bigfleet(?:ctl)?) (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE
        ):
            program, shown = programs[name], words.split()
            rows = [row for row in program.commands() if tuple(shown[: len(row.words)]) == row.words]
            assert rows, f"{page.name}: {name} {words}"


def test_the_licence_is_apache_2() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert text.split()[:6] == ["Apache", "License", "Version", "2.0,", "January", "2004"]
    assert "END OF TERMS AND CONDITIONS" in text


def test_the_change_log_keeps_an_unreleased_section() -> None:
    assert "\n## Unreleased\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
