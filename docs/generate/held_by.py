"""The page that says which tests hold each rule of the design, how many modules cite it, and which rules nothing cites."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from docs.generate.citations import Citation, Rule, every_citation, rules
from docs.generate.markdown import code, table
from docs.generate.markdown import page as markdown_page

SHOWN = 4
"""So many tests are named per rule; the number of the others follows."""

OTHERWISE: dict[str, str] = {
    "coordinator#throughput": "`make bench`, parts `coordinator-load` and `coordinator-snapshot`",
    "dashboard#answer-cost": "`make bench`, part `dashboard`",
    "dashboard#browser-tests": "`.ci/run` brings Chromium",
    "dashboard#ten-browsers": "`python -m scaletest.bench.dashboard_share`",
    "operator#demand-bulk": "`make bench`, part `operator`",
    "packaging#clean-install": "`.ci/wheel`, `.ci/image`",
    "packaging#image-platforms": "`.ci/image`",
    "packaging#image-read-only": "`.ci/image`",
    "packaging#make-targets": "`.ci/first-fleet`",
    "packaging#pages-run": "`.ci/first-fleet`",
    "shard#outbox": "`make bench`, part `shard`",
}
"""Rules that no test can assert, and what shows that they hold: a part of `make bench`, a stage of CI, a page of evidence."""

_INTRODUCTION = """
Which tests hold each rule of the design pages. A test names its rules with the marker
`@pytest.mark.rule("page#id")`; a module names them on the `Rules:` line of its docstring. Both are read from the
source, so this page cannot name a test that does not exist. Paths are below `tests/`. A path without a test name is a file that
cites the rule as a whole; a path that ends in `.txt` is a golden script of the engine.

`make test` checks that every citation names a rule that exists.
"""
_UNCITED = """
No module, test or other page cites these rules. A rule that the code keeps should be cited where it keeps it. Rules
that are not built yet are not listed.
"""


def page(root: Path) -> str:
    """Return the page for the repository below a folder."""
    made = Path("docs/design/held-by.md")
    cited = [citation for citation in every_citation(root) if Path(citation.path) != made]
    return text(rules(root / "docs" / "design"), cited)


def text(known: Mapping[str, Sequence[Rule]], cited: Iterable[Citation]) -> str:
    """Return the page for these rules and citations."""
    by_rule: dict[str, list[Citation]] = defaultdict(list)
    for citation in cited:
        by_rule[citation.rule].append(citation)
    parts = [_INTRODUCTION]
    for name, found in known.items():
        rows = [_row(rule, by_rule[rule.name]) for rule in found if _is_shown(rule, by_rule[rule.name])]
        parts += [f"## {name.capitalize()}", table(("Rule", "Held by", "Modules"), rows)]
    uncited = [rule for found in known.values() for rule in found if _is_uncited(rule, by_rule[rule.name])]
    parts += ["## Rules that nothing cites", _UNCITED]
    parts.append("\n".join(f"- {_link(rule)}" for rule in uncited) if uncited else "None.")
    return markdown_page("What holds each rule", *parts)


def _is_shown(rule: Rule, cited: Sequence[Citation]) -> bool:
    return rule.name in OTHERWISE or any(not _is_of_page(citation) for citation in cited)


def _is_uncited(rule: Rule, cited: Sequence[Citation]) -> bool:
    elsewhere = [citation for citation in cited if citation.path != f"docs/design/{rule.page}.md"]
    return rule.built and not rule.heads_others and not elsewhere and rule.name not in OTHERWISE


def _row(rule: Rule, cited: Sequence[Citation]) -> tuple[str, str, str]:
    tests = [_test(citation) for citation in cited if citation.path.startswith("tests/")]
    # A test comes before a file that cites the rule as a whole, which says less.
    names = sorted(
        dict.fromkeys(tests), key=lambda name: ("::" not in name and not name.endswith(".txt"), name)
    )
    held = [code(name) for name in names[:SHOWN]]
    if len(names) > SHOWN:
        held.append(f"and {len(names) - SHOWN} more")
    if rule.name in OTHERWISE:
        held.append(OTHERWISE[rule.name])
    modules = {citation.path for citation in cited if _is_module(citation)}
    return _link(rule), ", ".join(held), str(len(modules) or "")


def _test(citation: Citation) -> str:
    file = citation.path.removeprefix("tests/")
    return f"{file}::{citation.test}" if citation.test not in ("", "*") else file


def _is_module(citation: Citation) -> bool:
    return not citation.path.startswith("tests/") and citation.path.endswith(".py")


def _is_of_page(citation: Citation) -> bool:
    return citation.path.startswith("docs/") and citation.path.endswith(".md")


def _link(rule: Rule) -> str:
    return f"[{rule.id}]({rule.page}.md#{rule.id})"
