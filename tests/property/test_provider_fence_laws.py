"""The fence against a naive model: random tokens over shards and machines (`providers#fence-mark`)."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bigfleet.aio.rng import SeededRng
from bigfleet.provider.contract import INT64_MAX
from bigfleet.provider.kit.core.changes import FenceMark
from bigfleet.provider.kit.core.fence import Fence, FencingToken

SHARDS, MACHINES = 5, 20
# Near each other, so that tokens meet the mark; and the ends of what the wire can carry.
NUMBERS = st.one_of(
    st.integers(-3, 6), st.sampled_from([-INT64_MAX - 1, -INT64_MAX, INT64_MAX - 1, INT64_MAX])
)


class Naive:
    """The rule, word for word."""

    def __init__(self) -> None:
        self.marks: dict[tuple[str, str], tuple[int, int]] = {}

    def accepts(self, token: FencingToken, machine: str) -> bool:
        key = (token.shard_id, machine)
        if key in self.marks and token.position <= self.marks[key]:
            return False
        self.marks[key] = token.position
        return True


class FenceMachine(RuleBasedStateMachine):
    """Machines become known and are forgotten while tokens arrive; the state is written down and read back at any time."""

    @initialize()
    def begin(self) -> None:
        self.fence, self.naive = Fence(), Naive()
        self.rows = {f"m-{number}": number for number in range(MACHINES // 2)}

    @rule(
        shard=st.integers(0, SHARDS - 1),
        machine=st.integers(0, MACHINES - 1),
        epoch=NUMBERS,
        sequence=NUMBERS,
    )
    def call(self, shard: int, machine: int, epoch: int, sequence: int) -> None:
        machine_id, token = f"m-{machine}", FencingToken(f"s-{shard}", epoch, sequence)
        row = self.rows.get(machine_id)
        passes = self.fence.passes(token, machine_id, row)
        assert passes is self.naive.accepts(token, machine_id)
        if passes:
            self.fence.set(FenceMark(token.shard_id, machine_id, epoch, sequence), row)

    @rule(machine=st.integers(0, MACHINES - 1))
    def become_known_or_forgotten(self, machine: int) -> None:
        machine_id = f"m-{machine}"
        row = self.rows.pop(machine_id, None)
        if row is None:
            self.rows[machine_id] = next(n for n in range(MACHINES) if n not in self.rows.values())
        else:
            self.fence.forget_row(row, machine_id)

    @rule()
    def restart(self) -> None:
        again = Fence()
        for mark in self.fence.marks(self.rows.items()):
            again.set(mark, self.rows.get(mark.machine_id))
        self.fence = again

    @invariant()
    def every_mark_is_the_models(self) -> None:
        for (shard, machine), position in self.naive.marks.items():
            assert self.fence.mark(shard, machine, self.rows.get(machine)) == position


FenceMachine.TestCase.settings = settings(
    max_examples=20, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestFence = FenceMachine.TestCase


@pytest.mark.rule("providers#fence-mark")
@pytest.mark.parametrize("seed", [1, 2])
def test_ten_thousand_random_tokens_agree_with_the_model(seed: int) -> None:
    stream = SeededRng(seed).stream("tokens")
    fence, naive = Fence(), Naive()
    rows = {f"m-{number}": number for number in range(MACHINES)}
    accepted = 0
    for _ in range(10_000):
        machine = f"m-{stream.randrange(MACHINES)}"
        token = FencingToken(f"s-{stream.randrange(SHARDS)}", stream.randrange(8), stream.randrange(50))
        passes = fence.passes(token, machine, rows[machine])
        assert passes is naive.accepts(token, machine)
        if passes:
            accepted += 1
            fence.set(FenceMark(token.shard_id, machine, token.epoch, token.sequence), rows[machine])
    assert 0 < accepted < 10_000


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1))
def test_what_passed_is_strictly_rising(tokens: list[tuple[int, int]]) -> None:
    fence, passed = Fence(), list[tuple[int, int]]()
    for epoch, sequence in tokens:
        if fence.passes(FencingToken("s", epoch, sequence), "m", 0):
            fence.set(FenceMark("s", "m", epoch, sequence), 0)
            passed.append((epoch, sequence))
    assert passed == sorted(set(passed))
    assert passed[-1] == max(tokens)
