"""The first line of every look at a shard: one verdict in words.

Why: command line and pages must open with the same verdict, and it must name what is wrong.
Rules: `shard#problems-in-one-look`, `dashboard#answer-wrong`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from bigfleet.explain.durations import duration_text


class ProblemLine(NamedTuple):
    """A problem as a shard reports it."""

    kind: str
    text: str
    for_s: float = 0.0


def verdict_line(*, needs: int, covered: int, short: int, problems: Iterable[ProblemLine] = ()) -> str:
    """Whether all needs are covered, who is short first, and what else is wrong."""
    found = list(problems)
    parts = [_needs(needs, covered, short, found)]
    for kind, words in _WORDS.items():
        of_kind = [item for item in found if item.kind == kind]
        if of_kind:
            parts.append(words(of_kind))
    return "; ".join(parts)


def status_lines(verdict: str, problems: Iterable[ProblemLine]) -> list[str]:
    """The verdict, and the problems that it does not already name."""
    named = (item.text for item in problems if item.text not in verdict)
    return [*([verdict] if verdict else []), *(f"problem: {text}" for text in named)]


def _needs(needs: int, covered: int, short: int, problems: list[ProblemLine]) -> str:
    if not needs:
        return "No cluster asks for capacity"
    if short:
        first = next((item.text for item in problems if item.kind == "shortfalls"), "")
        are = "is" if short == 1 else "are"
        return f"{short} of {_count(needs, 'need')} {are} short" + (f": {first}" if first else "")
    if covered == needs:
        return "The one need is covered" if needs == 1 else f"All {needs} needs covered"
    waiting = needs - covered
    return f"{covered} of {_count(needs, 'need')} covered, {waiting} {'waits' if waiting == 1 else 'wait'} for machines"


def _unreachable(problems: list[ProblemLine]) -> str:
    return f"provider unreachable for {duration_text(problems[0].for_s)}"


_WORDS: Final[Mapping[str, Callable[[list[ProblemLine]], str]]] = {
    "self_paused": lambda _found: "the shard has stopped itself",
    "provider_unreachable": _unreachable,
    "listing_doubted": lambda _found: "the provider's listings are doubted",
    "rollup_quarantine": lambda found: found[0].text if len(found) == 1 else "roll-ups are held back",
    "offering_cool_off": lambda found: found[0].text if len(found) == 1 else "offerings are stocked out",
    "audit_lost": lambda found: found[0].text,
}
"""What the line says about each kind of problem, worst first; shortfalls are in its first part."""


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
