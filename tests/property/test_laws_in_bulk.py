"""Every law of decisions on thousands of situations from seeds, where the laws by name try a few that can be made small.

2,000 situations in every run, 50,000 by `make test-long`, and each part of them by itself so that parts go side by side.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bigfleet.engine.amounts import Scale
from bigfleet.engine.cycle import decide_situation
from bigfleet.engine.phase1.domains import NO_DOMAIN, DomainSupply, choose_domain
from bigfleet.engine.phase1.prepass import Workers
from bigfleet.engine.planner import Planner
from bigfleet.model.decision import Decision
from bigfleet.model.demand import Amounts, Demand
from bigfleet.model.inventory import Inventory
from bigfleet.model.resources import ZERO, Resources
from bigfleet.model.situation import Situation
from tests.property import test_reference_laws as laws
from tests.reference.domains import Domain, choose
from tests.support.situations import AMOUNTS, FLAVOURS, SIZES, Kind, situation_of

PARTS = range(4)  # side by side they take a fourth of the time
SHORT = settings(max_examples=500, deadline=None)
LONG = settings(max_examples=12_500, deadline=None)
ANY = (
    laws.test_no_machine_is_claimed_twice_and_every_claim_matches_and_covers_the_unit,
    laws.test_a_gang_gathers_in_one_domain_the_recorded_one,
    laws.test_what_is_bound_and_not_claimed_is_reclaimed_and_nothing_claimed_is_deleted,
    laws.test_the_deficit_is_the_total_less_all_claims,
    laws.test_a_victim_is_of_lower_priority_covers_the_unit_and_lies_in_the_domain,
    laws.test_nothing_is_taken_or_preempted_for_a_need_that_it_costs_without_end,
    laws.test_folding_loses_no_need_and_no_amount,
    laws.test_every_action_fits_its_machine_and_carries_the_fields_of_its_kind,
    laws.test_a_machine_that_matches_nobody_changes_only_its_own_release,  # last, as it asks about another one too
)
PLAIN = (laws.test_plain_needs_claim_as_many_machines_as_it_takes_as_far_as_supply_reaches,)
REPEATED = (laws.test_carried_out_at_once_and_repeated_decisions_fall_silent,)


class Remembering:
    """The engine; asked about the same situation again, it says what it said."""

    def __init__(self) -> None:
        self._last: tuple[Situation, Decision] | None = None

    def __call__(self, situation: Situation) -> Decision:
        if self._last is None or self._last[0] is not situation:
            self._last = (situation, decide_situation(situation))
        return self._last[1]


def hold(named: tuple[Callable[..., None], ...], situation: Situation, engine: Remembering) -> None:
    for law in named:
        law.hypothesis.inner_test(engine=engine, situation=situation)  # type: ignore[attr-defined]


def check(seed: int, flavours: Sequence[frozenset[str]] = FLAVOURS) -> None:
    rng, engine = Random(seed), Remembering()
    situation = situation_of(rng.choice, Kind(flavours=flavours))
    in_any_order_by_any_workers(situation, engine(situation), rng)
    hold(ANY, situation, engine)
    hold(
        PLAIN,
        situation_of(rng.choice, Kind(gangs=False, spreads=False, sizes=SIZES[2:3], flavours=flavours)),
        engine,
    )
    hold(
        REPEATED,
        situation_of(rng.choice, Kind(max_machines=20, max_needs=4, parked=False, flavours=flavours)),
        engine,
    )
    gathers_where_the_total_order_says(rng)
    if not rng.randrange(4):  # the one that the oracle asks of fewer situations
        of_any_priority(situation_of(rng.choice, Kind(distinct_priorities=True, flavours=flavours)), rng)


def in_any_order_by_any_workers(situation: Situation, decided: Decision, rng: Random) -> None:
    """K-03: machines may come in any order. `engine#acquisition-order` and `engine#commit-broker`: so may clusters, by
    however many workers they are planned."""
    inventory = Inventory()
    for machine in rng.sample(situation.machines, len(situation.machines)):
        inventory.insert(machine, None)
    again = Planner(workers(rng.randrange(6), rng)).decide(
        inventory.snapshot(),
        Demand.listed(situation.needs),
        parked=situation.parked,
        reported_clusters=situation.reported_clusters,
        holds=situation.holds,
        now=situation.now,
    )
    assert again == decided


@cache
def threads(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count)


def workers(count: int, rng: Random) -> Workers:
    """So many side by side, or none but this thread; either way jobs are begun in any order."""

    def carry_out(jobs: Sequence[Callable[[], None]]) -> None:
        shuffled = rng.sample(list(jobs), len(jobs))
        if not count:
            for job in shuffled:
                job()
            return
        for done in [threads(count).submit(job) for job in shuffled]:
            done.result()

    return carry_out


def of_any_priority(situation: Situation, rng: Random) -> None:
    """K-02: needs of different priorities may come in any order."""
    order = rng.sample(range(len(situation.needs)), len(situation.needs))
    one = decide_situation(situation)
    other = decide_situation(replace(situation, needs=tuple(situation.needs[place] for place in order)))
    assert laws.by_given_need(one, range(len(order))) == laws.by_given_need(other, order)


def gathers_where_the_total_order_says(rng: Random) -> None:
    """L-07: the engine compares whole arrays, step by step; the plain model sorts domains met in any order."""
    vectors = [Resources.parse(rng.choice([{}, *SIZES])).scaled(rng.choice((1, 2, 3))) for _ in range(6)]
    vectors.append(Resources.parse({"cpu": rng.choice(AMOUNTS), "memory": rng.choice(AMOUNTS)}))
    met = []
    for number in range(rng.randrange(7)):
        own, others, free = (rng.choice([ZERO, *vectors]) for _ in range(3))
        met.append(Domain(f"d{number}", rng.randrange(1, 4), own + others + free, own + others, own))
    wanted = rng.choice(vectors).scaled(rng.choice((1, 1, 2)))
    chosen = choose(rng.sample(met, len(met)), wanted)
    amounts = [wanted, *(part for domain in met for part in (domain.total, domain.creditable, domain.own))]
    assert production_choice(met, wanted, Scale(Amounts.of(amounts), Amounts.of(()), 1)) == (
        None if chosen is None else chosen.value
    )


def production_choice(met: Sequence[Domain], wanted: Resources, scale: Scale) -> str | None:
    found = choose_domain(
        DomainSupply(
            np.array([domain.count for domain in met], dtype=np.int64),
            scale.matrix([scale.vector(domain.total) for domain in met]),
            scale.matrix([scale.vector(domain.creditable) for domain in met]),
            scale.matrix([scale.vector(domain.own) for domain in met]),
        ),
        scale.vector(wanted),
    )
    return None if found == NO_DOMAIN else met[found].value


@pytest.mark.parametrize(
    "seed", [1_109_356], ids=["one need takes what was bought for another, cycle after cycle"]
)
def test_every_law_holds_for_a_seed_that_once_failed(seed: int) -> None:
    check(seed, flavours=())


@pytest.mark.parametrize("part", PARTS)
@given(seed=st.integers(0, 2**32))
@SHORT
def test_every_law_holds(part: int, seed: int) -> None:
    check(seed * len(PARTS) + part)


@pytest.mark.long
@pytest.mark.parametrize("part", PARTS)
@given(seed=st.integers(0, 2**62))
@LONG
def test_every_law_holds_at_length(part: int, seed: int) -> None:
    check(seed * len(PARTS) + part)
