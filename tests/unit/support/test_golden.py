"""The runner of golden scripts: answers stand below the rule, and nothing is skipped in silence."""

from collections.abc import Sequence

import pytest

from bigfleet.model.decision import Decision
from bigfleet.model.situation import Situation
from tests.support.engine.world import EngineWorld
from tests.support.golden import ScriptError, replay


def echo(words: Sequence[str]) -> Sequence[str]:
    return () if words[0] == "quiet" else [" ".join(words)]


def undecided(situation: Situation) -> Decision:
    return Decision((), (), ())


def test_a_script_with_the_right_answers_is_returned_as_it_is() -> None:
    script = "# a comment\none two # and another\nthree\n----\none two\nthree\n\nquiet\n----\n(nothing)\n"
    assert replay(script, echo) == script


@pytest.mark.parametrize("old", ["", "wrong\n", "one\nand more\n"])
def test_old_answers_are_replaced(old: str) -> None:
    assert replay(f"one\n----\n{old}\ntwo\n----\ntwo\n", echo) == "one\n----\none\n\ntwo\n----\ntwo\n"


def test_an_answer_that_nobody_compares_is_refused() -> None:
    with pytest.raises(ScriptError, match="ends without a rule"):
        replay("one\n", echo)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("fly", "'fly' is none of"),
        ("machine m1", "an id and one of the states"),
        ("machine m1 Idle colour=red", "do not understand 'colour=red'"),
        ("machine m1 Configured", "needs a cluster"),
        ("need", "a need has a cluster"),
        ("need a 1xG nonsense", "do not understand 'nonsense'"),
        ("park x\ncycle", "'x' is no cluster with a need"),
    ],
)
def test_a_line_that_makes_no_sense_is_refused_by_its_number(line: str, problem: str) -> None:
    with pytest.raises(ScriptError, match=r"line \d: ") as refused:
        replay(f"# first\n{line}\n", EngineWorld(undecided).command)
    assert problem in str(refused.value)
    assert refused.value.line_number == 1 + len(line.splitlines())
