"""The commands that pages show: blocks of `bash`, `sh` and `console`, cut into commands.

On every page a `bash` block is typed in by a test, as it stands. A `console` block shows commands behind `$ ` and what they print;
`sh` is for what a reader types and a test cannot.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
_BLOCK = re.compile(r"^```(bash|sh|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_HERE_DOCUMENT = re.compile(r"<<-?'?(\w+)'?[^\n]*\n.*?^\1$", re.MULTILINE | re.DOTALL)
# Where in a line of shell a command may begin. Words before it that are no command are cut off below.
_BETWEEN = re.compile(r"\|\||&&|[|;&]|\$\(|<\(|(?<!\\)\n")
_LEADING = re.compile(r"^(?:(?:until|while|if|then|do|!|time|\w+=\S*)\s+)+")
_REDIRECTED = re.compile(r"\d?>{1,2}\s*[^\s&]\S*|(?<!<)<\s*\S+")


@dataclass(frozen=True)
class Shown:
    """One command of a page."""

    page: str
    kind: str
    text: str

    @property
    def words(self) -> list[str]:
        return shlex.split(self.text)

    @property
    def program(self) -> str:
        """What runs; a plugin of kubectl is a program of its own."""
        first, *rest = self.text.split()
        return (
            "kubectl-bigfleet" if [first, *rest[:1]] == ["kubectl", "bigfleet"] else first.rpartition("/")[2]
        )

    @property
    def arguments(self) -> list[str]:
        return self.words[2 if self.program == "kubectl-bigfleet" else 1 :]


def pages() -> list[Path]:
    """Every page that people read; decision records tell of the past and may show what was refused."""
    outside = {"adr", "examples"}  # an example is a project of its own with a page of its own
    found = [path for path in DOCS.rglob("*.md") if not outside & set(path.relative_to(DOCS).parts)]
    return sorted([*found, ROOT / "README.md"])


def text_of(page: Path) -> str:
    """Return what a page says exists: all of it, but for a last section of rules that are not built yet."""
    return page.read_text(encoding="utf-8").partition("{#not-built-yet}")[0]


def name_of(page: Path) -> str:
    return page.relative_to(DOCS).as_posix() if page.is_relative_to(DOCS) else page.name


def blocks(page: Path, *kinds: str) -> list[str]:
    """The blocks of some kinds on a page, in order."""
    return [text for kind, text in _BLOCK.findall(page.read_text(encoding="utf-8")) if kind in kinds]


def commands(page: Path) -> Iterator[Shown]:
    """Every command of a page."""
    for kind, text in _BLOCK.findall(page.read_text(encoding="utf-8")):
        if text.startswith("#!"):
            continue  # a script, shown as the file it is
        for command in _cut(_typed(text) if "$ " in text[:3] or kind == "console" else text):
            yield Shown(name_of(page), kind, command)


def _typed(text: str) -> str:
    """Return what stands behind the prompts, with the lines that go on."""
    lines, goes_on = [], False
    for line in text.splitlines():
        if line.startswith("$ ") or goes_on:
            lines.append(line.removeprefix("$ "))
            goes_on = line.endswith("\\")
    return "\n".join(lines) + "\n"


def _cut(text: str) -> Iterator[str]:
    text = _HERE_DOCUMENT.sub("", text).replace("\\\n", " ").replace("2>&1", "")
    text = "\n".join(re.sub(r"(^|\s)# .*", "", line) for line in text.splitlines())
    for piece in _BETWEEN.split(_masked(text)):
        command = _LEADING.sub("", _unmasked(piece).strip()).strip()
        command = _REDIRECTED.sub("", command).strip()
        if ")" in command and "(" not in command:  # the end of $(…) or <(…)
            command = command.partition(")")[0]
        if command and command not in {"done", "fi", "do", "then", "wait", "END"}:
            yield command


def _masked(text: str) -> str:
    """Hide what stands in quotes from the cutting, but for commands inside of it."""
    return re.sub(
        r"""'[^'\n]*'|"[^"\n(]*\"""", lambda found: "".join(chr(ord(one) + 0xE000) for one in found[0]), text
    )


def _unmasked(text: str) -> str:
    return "".join(chr(ord(one) - 0xE000) if 0xE000 <= ord(one) < 0xF8FF else one for one in text)
