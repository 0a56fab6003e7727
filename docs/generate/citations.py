"""Rules of the design pages, and every place of the repository that cites one.

A rule is cited as `page#anchor`: in backquotes, on a `Rules:` line, in the marker `rule` of a test, or as the text of a link.
Called by: the generator of the held-by page, and the test that refuses dead citations.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PAGES = (
    "wire",
    "engine",
    "shard",
    "coordinator",
    "operator",
    "providers",
    "dashboard",
    "packaging",
    "testing",
)
NOT_BUILT = "not-built-yet"
ENDINGS = {
    ".py",
    ".md",
    ".yaml",
    ".yml",
    ".sh",
    ".proto",
    ".tpl",
    ".toml",
    ".tmpl",
    ".js",
    ".css",
    ".html",
    ".txt",
}
NAMED = {"Makefile", "Dockerfile"}
FOLDERS = (
    "bigfleet",
    "charts",
    "cmd",
    "deploy",
    "docs",
    "examples",
    "proto",
    "release",
    "scaletest",
    "testbed",
    "tests",
)
SKIPPED = {".venv", ".git", ".make", "site", "build", "dist", "node_modules", "__pycache__"}
# Its subject is dead citations, which it plants.
PLANTS = "tests/docs/test_citations.py"

_HEADING = re.compile(r"^(?P<marks>#{1,6}) +(?P<title>.*?) *\{#(?P<id>[^}\s]+)\} *$")
_ANCHOR = re.compile(r"""<a id=["']([^"']+)["']>""")
_FENCE = re.compile(r"^\s*(```|~~~)")
# `page#id` itself only shows the form.
_BACKQUOTED = re.compile(r"`(?!page#)([a-z][a-z-]*)#([A-Za-z0-9_.-]*)`")
_LINKED = re.compile(r"\[([a-z][a-z-]*)#([A-Za-z0-9_.-]*)\]\(([^)]*)\)")
_BARE = re.compile(rf"(?<![\w`/.-])({'|'.join(PAGES)})#([A-Za-z0-9_.-]*[A-Za-z0-9_-])")
_RULES = re.compile(r"\bRules?:\s+(?P<cited>.*)$")
_RECORD = re.compile(r"\bADR-(\d+)\b")


@dataclass(frozen=True)
class Rule:
    """A rule of a page: a heading or a row of a table with an id of its own."""

    page: str
    id: str
    title: str
    section: str
    built: bool
    heads_others: bool = False

    @property
    def name(self) -> str:
        """The citation."""
        return f"{self.page}#{self.id}"


@dataclass(frozen=True, order=True)
class Citation:
    """A place that cites a rule; `test` is empty unless the marker of a test does."""

    path: str
    line: int
    rule: str
    test: str = ""


def rules_of(page: str, text: str) -> list[Rule]:
    """Return the anchors of a page in their order; an id that is there twice is returned twice."""
    found: list[Rule] = []
    section, built = "", True
    for line in _outside_fences(text):
        heading = _HEADING.match(line)
        if heading:
            if len(heading["marks"]) <= 2:
                section, built = heading["title"], heading["id"] != NOT_BUILT
            heads = len(heading["marks"]) <= 2
            found.append(Rule(page, heading["id"], heading["title"], section, built, heads))
        for anchor in _ANCHOR.findall(line):
            title = _ANCHOR.sub("", line).replace("</a>", "").strip("| ").split("|")[0].strip()
            found.append(Rule(page, anchor, title, section, built))
    sections_with_rules = {rule.section for rule in found if not rule.heads_others}
    return [
        rule if not rule.heads_others or rule.section in sections_with_rules else _plain(rule)
        for rule in found
    ]


def rules(folder: Path) -> dict[str, list[Rule]]:
    """Return the rules of every design page that is there."""
    pages = {page: folder / f"{page}.md" for page in PAGES}
    return {
        page: rules_of(page, path.read_text(encoding="utf-8"))
        for page, path in pages.items()
        if path.exists()
    }


def files(root: Path) -> list[Path]:
    """Return every file that may cite; evidence that a program wrote, and modules made from the contract, may not."""
    found = [path for folder in FOLDERS for path in (root / folder).rglob("*")]
    found += [path for path in root.iterdir() if path.is_file()]
    return sorted(path for path in found if path.is_file() and _may_cite(path.relative_to(root)))


def citations(path: str, text: str) -> list[Citation]:
    """Return what a file cites, in its order."""
    found = {
        Citation(path, number, f"{match[1]}#{match[2]}")
        for number, line in enumerate(text.splitlines(), 1)
        for pattern in (_BACKQUOTED, _LINKED)
        for match in pattern.finditer(line)
    }
    for number, line in enumerate(text.splitlines(), 1):
        head = _RULES.search(line)
        if head:
            found |= {Citation(path, number, f"{page}#{id_}") for page, id_ in _BARE.findall(head["cited"])}
    if path.endswith(".py") and "mark.rule" in text:
        found |= set(marked(path, text))
    return sorted(found)


def marked(path: str, text: str) -> Iterator[Citation]:
    """Yield what the markers of a test module cite; those of `pytestmark` belong to every test and name none."""
    tree = ast.parse(text)
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and any(
            _name(each) == "pytestmark" for each in statement.targets
        ):
            yield from _marks(path, statement.value, "*")
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for decorator in node.decorator_list:
                yield from _marks(path, decorator, node.name)


def records(text: str) -> list[tuple[int, str]]:
    """Return line and number of each decision record that a text names."""
    return [
        (number, found) for number, line in enumerate(text.splitlines(), 1) for found in _RECORD.findall(line)
    ]


def prose(path: str, text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that people read, with their numbers: comments and docstrings of a module, a page without its code."""
    if path.endswith(".py"):
        yield from _prose_of_module(text)
    elif path.endswith(".md"):
        inside = False
        for number, line in enumerate(text.splitlines(), 1):
            if _FENCE.match(line):
                inside = not inside
            elif not inside:
                yield number, line
    else:
        yield from enumerate(text.splitlines(), 1)


def every_citation(root: Path) -> list[Citation]:
    """Return what all files of the repository cite."""
    return [
        citation
        for path in files(root)
        for citation in citations(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"))
    ]


def _plain(rule: Rule) -> Rule:
    return Rule(rule.page, rule.id, rule.title, rule.section, rule.built)


def _outside_fences(text: str) -> Iterator[str]:
    return (line for _, line in prose("page.md", text))


def _may_cite(path: Path) -> bool:
    if (
        SKIPPED & set(path.parts)
        or path.as_posix() == PLANTS
        or path.name.endswith(("_pb2.py", "_pb2_grpc.py"))
    ):
        return False
    if path.parts[:2] == ("docs", "evidence") and path.suffix != ".md":
        return False
    return path.suffix in ENDINGS or path.name in NAMED


def _marks(path: str, node: ast.AST, test: str) -> Iterator[Citation]:
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.rule":
            for argument in call.args:
                written = argument.value if isinstance(argument, ast.Constant) else ast.unparse(argument)
                yield Citation(path, argument.lineno, str(written), test)


def _name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _prose_of_module(text: str) -> Iterator[tuple[int, str]]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    found = [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            lines = node.value.value.splitlines()
            found += [(node.lineno + place, line) for place, line in enumerate(lines)]
    yield from sorted(found)
