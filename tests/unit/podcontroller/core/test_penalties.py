"""Penalties: annotation, else the default of the class, else none, each on its own.

Rules: `operator#pod-requirements`, `operator#pod-penalties`, `operator#e15`.
"""

from typing import Any

import pytest

from bigfleet.podcontroller.core.penalties import (
    NO_DEFAULTS,
    BadDefaultsError,
    penalties_of,
    read_defaults,
)

INTERRUPTION = "bigfleet.lucy.sh/interruption-penalty"
RECLAMATION = "bigfleet.lucy.sh/reclamation-penalty"
DEFAULTS = read_defaults(
    {"gold": {"interruptionPenalty": "8", "reclamationPenalty": 2}, "iron": {"reclamationPenalty": "500m"}},
    "defaults.yaml",
)


@pytest.mark.rule("operator#pod-penalties")
@pytest.mark.parametrize(
    ("annotations", "priority_class", "found"),
    [
        pytest.param({}, "", {}, id="79 absent"),
        pytest.param({}, "unknown", {}, id="79 unknown class"),
        pytest.param(
            {}, "gold", {"interruptionPenalty": "8", "reclamationPenalty": "2"}, id="79 class default"
        ),
        pytest.param({}, "iron", {"reclamationPenalty": "500m"}, id="79 a class may set one alone"),
        pytest.param(
            {INTERRUPTION: "4096"},
            "gold",
            {"interruptionPenalty": "4096", "reclamationPenalty": "2"},
            id="79 annotation over class, each by itself",
        ),
        pytest.param({RECLAMATION: "1.5"}, "", {"reclamationPenalty": "1.5"}, id="79 written as given"),
        pytest.param(
            {INTERRUPTION: "0"}, "gold", {"interruptionPenalty": "0", "reclamationPenalty": "2"}, id="zero"
        ),
        pytest.param(
            {INTERRUPTION: ""}, "gold", {"interruptionPenalty": "8", "reclamationPenalty": "2"}, id="empty"
        ),
    ],
)
def test_penalties_resolve(annotations: dict[str, str], priority_class: str, found: dict[str, str]) -> None:
    assert penalties_of(annotations, priority_class, DEFAULTS) == (found, [])


@pytest.mark.rule("operator#pod-penalties")
@pytest.mark.parametrize("text", ["$5", "much", "NaN", " 1", "-1", "-0.5", "1" * 65])
def test_a_bad_annotation_falls_to_the_default_and_is_told(text: str) -> None:
    found, (warning,) = penalties_of({INTERRUPTION: text}, "gold", DEFAULTS)
    assert found["interruptionPenalty"] == "8"
    assert INTERRUPTION in warning
    assert "counts as absent" in warning
    assert penalties_of({INTERRUPTION: text}, "", NO_DEFAULTS)[0] == {}


@pytest.mark.rule("operator#pod-penalties")
@pytest.mark.parametrize(
    ("document", "words"),
    [
        (["gold"], "defaults.yaml: found a list, allowed is a map"),
        ({"gold": "8"}, "priority class 'gold': found '8'"),
        ({"gold": {"interruptionPenalty": "much"}}, "priority class 'gold': interruptionPenalty"),
        ({"gold": {"interruptionPenalty": -1}}, "priority class 'gold': interruptionPenalty"),
        ({"gold": {"interruptionPenalty": 1.5}}, "priority class 'gold': interruptionPenalty: found 1.5"),
        ({"gold": {"interruptionPenalty": True}}, "priority class 'gold': interruptionPenalty: found True"),
        ({"gold": {"penalty": "1"}}, "priority class 'gold': found key 'penalty'"),
        ({3: {}}, "priority class 3"),
    ],
)
def test_bad_defaults_are_refused_naming_the_class(document: Any, words: str) -> None:
    with pytest.raises(BadDefaultsError) as refused:
        read_defaults(document, "defaults.yaml")
    assert words in str(refused.value)


def test_an_empty_file_has_no_defaults() -> None:
    assert read_defaults(None, "f") == NO_DEFAULTS
