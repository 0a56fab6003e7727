"""Forms of citation that the repository gave up: numbers and codes of documents that are not part of it."""

import re
from collections.abc import Iterator

from docs.generate.citations import prose

_ANY = "decision-engine|engine performance|providers|packaging|snapshot|simulator|scaletest|wire"
_WORDS = (
    f"{_ANY}|dashboard|coordinator|operator|shard|testbed"  # the last five are also what one calls a process
)
_NUMBER = r"\d{1,2}(?:\.\d{1,2})?(?![\w.:]*\d)"
_CODE = r"[ESCOPNUD]\d{1,2}"

# What each form looked like, and an example that must be found.
FORMS: dict[str, tuple[re.Pattern[str], str]] = {
    "a section of a document": (
        re.compile(rf"\b(?:{_WORDS})(?:\.md)? \d{{1,2}}\.\d{{1,2}}(?![.\d])", re.IGNORECASE),
        "Streams stay responsive while a cycle computes (shard 4.4).",
    ),
    "a chapter of a document": (
        re.compile(rf"\b(?:{_ANY})(?:\.md)? \d{{1,2}}(?=[\s,;:.)]|$)(?! (?:%|s\b|machines|of \d))"),
        "An unknown name is NOT_FOUND, as wire 7 says.",
    ),
    "a chapter of a document in brackets": (
        re.compile(rf"\((?:{_WORDS}) {_NUMBER}(?=[,;)]| and \d| to \d)"),
        "Wait for who leads (coordinator 6).",
    ),
    "a chapter by its word": (
        re.compile(r"(?<!RFC )\bsections? \d{1,2}(?:\.\d{1,2})?\b"),
        "The slow form of what section 3 of the engine says.",
    ),
    "a decision by its code": (
        re.compile(rf"\bdecisions? {_CODE}\b", re.IGNORECASE),
        "Calls already sent are awaited first (decision S20).",
    ),
    "a code in brackets": (
        re.compile(rf"\((?:[\w. ]+, )?{_CODE}(?:(?:, | and | to ){_CODE})*(?:[,;][^()]*)?\)"),
        "Stop after three of them (S5).",
    ),
    "an item of a list": (
        re.compile(r"\b(?:checklist|acceptance) (?:items? )?\d+\b|\bitems? \d+\b", re.IGNORECASE),
        "A history of calls is linearizable; checklist 23.",
    ),
    "a row of a table": (
        re.compile(r"\b(?:failure )?rows? \d+(?: (?:and|to) \d+)?\b(?! (?:of|rows)\b)", re.IGNORECASE),
        "What a full disk does, failure row 12.",
    ),
    "a numbered rule": (re.compile(r"\brules? \d+\b", re.IGNORECASE), "Conflicts are common, rule 4."),
}

_OTHER_NUMBERS = "exit|exits|with|than|p|apache|version|tls_1|bits|takes|of_version|field|port|address"
NAMES: dict[str, tuple[re.Pattern[str], str]] = {
    "an item or row in front": (
        re.compile(r"^test_(?:items?|rows?|rules?|decisions?|checks?)_[a-z]?\d"),
        "test_row_5_and_item_20_a_leader_stops",
    ),
    "a number in front": (
        re.compile(r"^test_\d{1,2}(?:_and)?_(?!percent|seconds)"),
        "test_57_60_63_cordon_and_drain",
    ),
    "a code in front": (re.compile(r"^test_[a-z]_?\d{1,2}_"), "test_a_08_order_is_priority"),
    "a code at the end": (
        re.compile(r"_(?!p9)[escopnud]\d{1,2}(?:_|$)"),
        "test_a_call_never_sent_is_undone_s19",
    ),
    "a number at the end": (
        re.compile(rf"(?<!_{')(?<!_'.join(sorted(_OTHER_NUMBERS.split('|')))})_\d{{1,2}}$"),
        "test_every_pod_is_confined_19",
    ),
    "a decision record at the end": (re.compile(r"_adr_\d{4}"), "test_it_keeps_its_place_adr_0110"),
}


def old_citations(path: str, text: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, form and words of each citation in an old form."""
    for number, line in prose(path, text):
        for form, (pattern, _) in FORMS.items():
            for match in pattern.finditer(line):
                yield number, form, match.group()


def old_names(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, form and name of each test whose name carries a number or code of a document."""
    for match in re.finditer(r"^\s*(?:async )?def (test_\w+)\(", text, re.MULTILINE):
        for form, (pattern, _) in NAMES.items():
            if pattern.search(match[1]):
                yield text.count("\n", 0, match.start(1)) + 1, form, match[1]
                break
