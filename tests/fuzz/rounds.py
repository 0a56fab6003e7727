"""Rounds of fuzzing: seeds, changed and fed to a target by Hypothesis, which makes a failing input small.

Why Hypothesis and not a fuzzer that follows coverage: it is in the lock already and runs on every Python and host that we
support; the parsers are small, and seeds with changes reach every line of them (ADR-0249).
Must never: depend on the time of day or on a database of earlier runs. A round with one number is one list of inputs.
"""

from collections import Counter
from time import process_time

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.fuzz.mutations import MOST_BYTES, WORDS, Change, Mutation, mutated
from tests.fuzz.targets import Grow, Target

SLOWDOWN = 10.0
"""Allowed for four times the input: 4 is linear, 16 quadratic; between them lie sorting, caches and a busy host."""
_LONG_ENOUGH_S = 0.004
_LARGEST = 1 << 20
_TRIES = 5
_SURELY_LINEAR = 6.0

MUTATIONS = st.builds(
    Mutation,
    st.sampled_from(Change),
    st.integers(0, MOST_BYTES),
    st.integers(0, 255),
    st.sampled_from(WORDS) | st.binary(max_size=12),
)


def inputs(target: Target) -> st.SearchStrategy[bytes]:
    """Nearly valid bytes, and now and then bytes of no form at all."""
    changed = st.builds(mutated, st.sampled_from(target.seeds()), st.lists(MUTATIONS, max_size=3))
    return changed | st.binary(max_size=256)


def fuzz(target: Target, examples: int, number: int) -> Counter[str]:
    """Feed so many inputs; return how many were read and refused. A finding raises, with the smallest such input."""
    answers: Counter[str] = Counter()

    @seed(number)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        print_blob=False,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(inputs(target))
    def one_round(data: bytes) -> None:
        answers[target.run(data)] += 1

    one_round()
    return answers


def slowdown(target: Target, grow: Grow) -> float:
    """Return how many times the CPU time of an input is that of one four times smaller; the best of a few tries.

    The smaller one is made large enough to be measured, unless even a megabyte costs nothing.
    """
    size = 1 << 12
    while (short := _cost(target, grow(size), 1)) < _LONG_ENOUGH_S:
        size *= 4
        if size > _LARGEST:
            return 1.0
    best = float("inf")
    small, large = grow(size), grow(4 * size)
    for _ in range(_TRIES):
        short = _cost(target, small, 2)
        best = min(best, _cost(target, large, 1) / short)
        if best < _SURELY_LINEAR:
            break
    return best


def _cost(target: Target, data: bytes, repetitions: int) -> float:
    costs = []
    for _ in range(repetitions):
        start = process_time()
        target.run(data)
        costs.append(process_time() - start)
    return min(costs)
