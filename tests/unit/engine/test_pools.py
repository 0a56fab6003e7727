"""A changed pool equals a newly made one."""

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bigfleet.engine.pools import MovedMachines, StatePool


def pool_of(id_order: np.ndarray, inside: np.ndarray, kind: np.ndarray, kinds: int) -> StatePool:
    return StatePool.of(id_order, np.flatnonzero(inside[id_order]).astype(np.int32), kind, kinds)


def contents(pool: StatePool) -> list[list[int]]:
    kinds = range(pool.counts.size)
    return [pool.of_kinds(np.array([kind])).tolist() for kind in kinds]


@given(st.integers(0, 2**32))
@settings(max_examples=300)
def test_a_changed_pool_is_the_pool_made_anew(seed: int) -> None:
    rng = np.random.default_rng(Random(seed).getrandbits(64))
    size, kinds = int(rng.integers(1, 30)), int(rng.integers(1, 5))
    id_order = rng.permutation(size)
    rank = np.empty(size, dtype=np.int32)
    rank[id_order] = np.arange(size)
    kind = rng.integers(0, kinds, size).astype(np.int32)
    inside = rng.random(size) < 0.6
    pool = pool_of(id_order, inside, kind, kinds)

    changed = np.flatnonzero(rng.random(size) < 0.3)
    grown = kinds + int(rng.integers(0, 3))
    kind_after, inside_after = kind.copy(), inside.copy()
    kind_after[changed] = rng.integers(0, grown, changed.size)
    inside_after[changed] = rng.random(changed.size) < 0.5
    left, joined = changed[inside[changed]], changed[inside_after[changed]]
    after = pool.grown(grown).changed(
        MovedMachines(rank[left], kind[left]), MovedMachines(rank[joined], kind_after[joined])
    )

    assert contents(after) == contents(pool_of(id_order, inside_after, kind_after, grown))
    assert contents(pool) == contents(pool_of(id_order, inside, kind, kinds))  # the old pool is unchanged
