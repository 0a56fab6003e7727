"""Rounds of fuzzing: seeds, changed and fed to a target by Hypothesis, which makes a failing input small.

Why Hypothesis too, beside a fuzzer that follows coverage: it is in the lock already and runs on every Python and host that we
support, and its rounds are the same everywhere, as `make test` needs (ADR-0249, ADR-0259).
Must never: depend on the time of day or on a database of earlier runs. A round with one number is one list of inputs.
"""

from collections import Counter
from random import Random
from time import process_time

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.fuzz.mutations import MOST_BYTES, WORDS, Change, Mutation, mutated
from tests.fuzz.targets import Grow, Target
from tests.fuzz.trees import Form, changed, words_of

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
    bytes_changed = st.builds(mutated, st.sampled_from(target.seeds()), st.lists(MUTATIONS, max_size=3))
    if target.form is None:
        return bytes_changed | st.binary(max_size=256)
    return bytes_changed | _trees_changed(target.form, target.seeds()) | st.binary(max_size=256)


def _trees_changed(form: Form, seeds: tuple[bytes, ...]) -> st.SearchStrategy[bytes]:
    words = words_of(form, seeds)

    def tree_changed(data: bytes, number: int) -> bytes:
        random = Random(number)
        return changed(data, form, words, random, lambda part: mutated(part, [_drawn(random)]))

    return st.builds(tree_changed, st.sampled_from(seeds), st.integers(0, 2**32))


def _drawn(random: Random) -> Mutation:
    return Mutation(
        random.choice(list(Change)), random.randrange(MOST_BYTES), random.randrange(256), random.choice(WORDS)
    )


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

    The smaller one is made large enough to be measured, unless even a megabyte costs nothing. A step, such as that to blocks of
    memory which the kernel gives and takes, shows at one size only; work that grows too fast shows at the next one too.
    """
    size = 1 << 12
    while _cost(target, grow(size), 1) < _LONG_ENOUGH_S:
        size *= 4
        if size > _LARGEST:
            return 1.0
    ratio = _ratio(target, grow, size, _TRIES)
    return ratio if ratio < SLOWDOWN else min(ratio, _ratio(target, grow, 4 * size, 2))


def _ratio(target: Target, grow: Grow, size: int, tries: int) -> float:
    best = float("inf")
    small, large = grow(size), grow(4 * size)
    for _ in range(tries):
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
