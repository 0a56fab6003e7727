"""The checker of histories: it accepts what one copy could have answered and finds what it could not."""

import random

import pytest

from tests.support.linearizability import Event, check

Op = tuple[str, int]


def step(state: int, op: Op, _known: bool) -> tuple[int, ...]:
    """A register: ("write", value) and ("read", value)."""
    kind, value = op
    if kind == "write":
        return (value,)
    return (state,) if state == value else ()


def event(began: int, ended: int | None, kind: str, value: int) -> Event[Op]:
    return Event(began, ended, (kind, value))


@pytest.mark.parametrize(
    ("history", "ok"),
    [
        pytest.param([], True, id="nothing"),
        pytest.param([event(0, 1, "write", 1), event(2, 3, "read", 1)], True, id="read what was written"),
        pytest.param([event(0, 1, "write", 1), event(2, 3, "read", 0)], False, id="a stale read"),
        pytest.param([event(0, 5, "write", 1), event(2, 3, "read", 0)], True, id="overlapping: before"),
        pytest.param([event(0, 5, "write", 1), event(2, 3, "read", 1)], True, id="overlapping: after"),
        pytest.param(
            [event(0, 9, "write", 1), event(1, 2, "read", 1), event(3, 4, "read", 0)],
            False,
            id="back in time",
        ),
        pytest.param([event(0, 1, "read", 7)], False, id="a value nobody wrote"),
        pytest.param([event(0, None, "write", 1), event(5, 6, "read", 1)], True, id="unknown, took effect"),
        pytest.param([event(0, None, "write", 1), event(5, 6, "read", 0)], True, id="unknown, did not"),
        pytest.param(
            [event(0, None, "write", 1), event(5, 6, "read", 0), event(7, 8, "read", 1)],
            True,
            id="unknown, late",
        ),
        pytest.param(
            [event(0, None, "write", 1), event(2, 3, "read", 1), event(4, 5, "read", 0)],
            False,
            id="unknown, undone",
        ),
        pytest.param(
            [event(0, 1, "read", 1), event(2, None, "write", 1)], False, id="effect before it began"
        ),
        pytest.param(
            [event(0, 1, "write", 1), event(2, 3, "write", 2), event(4, 5, "read", 1)],
            False,
            id="a lost write",
        ),
    ],
)
def test_verdict(history: list[Event[Op]], ok: bool) -> None:
    assert check(history, 0, step).ok is ok


def record(seed: int, calls: int, clients: int, unknown: float = 0.0) -> list[Event[Op]]:
    """Return what clients of one real copy would record: each call takes effect at one moment between begin and end."""
    dice = random.Random(seed)
    moments: list[tuple[int, int, int | None, str, int]] = []
    for client in range(clients):
        now = client
        for _ in range(calls // clients):
            began = now + dice.randint(1, 5)
            effect = began + dice.randint(1, 20)
            ended = effect + dice.randint(1, 20)
            lost = dice.random() < unknown
            kind = "write" if lost else dice.choice(("read", "write"))
            moments.append((effect, began, None if lost else ended, kind, dice.randint(0, 5)))
            now = ended
    value, history = 0, []
    for _, began, heard, kind, drawn in sorted(moments, key=lambda moment: moment[:2]):
        if kind == "write":
            value = drawn
        history.append(Event(began, heard, (kind, value)))
    return history


@pytest.mark.parametrize("seed", range(5))
def test_histories_of_one_copy_pass(seed: int) -> None:
    verdict = check(record(seed, 1000, 6, unknown=0.005), 0, step)
    assert verdict.ok


@pytest.mark.rule("coordinator#linearizable-reads")
@pytest.mark.parametrize("seed", range(8))
def test_a_planted_stale_read_is_found(seed: int) -> None:
    history = record(seed, 200, 4)
    reads = [place for place, each in enumerate(history) if each.op[0] == "read"]
    place = random.Random(seed).choice(reads)
    # A value that was never written cannot be explained by any order.
    history[place] = Event(history[place].began, history[place].ended, ("read", 99))
    verdict = check(history, 0, step)
    assert not verdict.ok
    assert any(each.op == ("read", 99) for each in verdict.stuck)


@pytest.mark.rule("coordinator#linearizable-reads")
def test_a_read_of_the_value_before_the_last_write_is_found() -> None:
    found = 0
    for seed in range(10):
        history = record(seed, 200, 3)
        ordered = sorted(history, key=lambda each: each.ended or 0)
        writes = [each for each in ordered if each.op[0] == "write"]
        late = max(each.ended or 0 for each in history)
        last = writes[-1].op[1]
        stale = next((each.op[1] for each in reversed(writes) if each.op[1] != last), 99)
        found += not check([*history, Event(late + 10, late + 20, ("read", stale))], 0, step).ok
    assert found >= 8  # where two of the last writes overlapped, the other value may be right
