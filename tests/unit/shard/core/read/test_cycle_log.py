"""Cycles in figures, and how a need fared in each (`dashboard#explain-history`, `dashboard#insight-service`)."""

from bigfleet.model.action import ActionKind
from bigfleet.model.machine import NeedRef
from bigfleet.model.need import Need
from bigfleet.model.profile import Profile
from bigfleet.model.situation import Situation
from bigfleet.shard.core.read.cycle_log import CYCLES_KEPT, CycleLog
from bigfleet.shard.core.read.short_history import HISTORY, PastVerdict
from bigfleet.shard.core.views import CycleFacts
from tests.support.builders import amounts, machine
from tests.support.shard_views import cycle_of

NEED = Need("a", Profile(), amounts(cpu=4))
KEY = NeedRef("a", Profile().fingerprint)
MET = Situation(0.0, (machine("m-1"),), (NEED,))
SHORT = Situation(0.0, (), (NEED,))


def test_a_cycle_is_kept_in_figures_without_its_actions() -> None:
    log = CycleLog()
    view = cycle_of(MET, facts=CycleFacts(duration_s=0.5, phases_s={"phase1": 0.1}, capped=3))
    log.add(
        cycle_of(MET, facts=CycleFacts(duration_s=0.5, capped=3, dispatched=tuple(view.decision.actions)))
    )
    (summary,) = log.summaries()
    assert (summary.number, summary.machines, summary.needs, summary.needs_short) == (1, 1, 1, 0)
    assert summary.actions == {ActionKind.BOOTSTRAP.value: 1}
    assert (summary.facts.duration_s, summary.facts.capped, summary.facts.dispatched) == (0.5, 3, ())


def test_cycles_after_a_number_and_of_more_than_the_limit_the_latest() -> None:
    log = CycleLog()
    for number in range(1, 6):
        log.add(cycle_of(MET, number))
    assert [item.number for item in log.summaries()] == [1, 2, 3, 4, 5]
    assert [item.number for item in log.summaries(after=3)] == [4, 5]
    assert [item.number for item in log.summaries(limit=2)] == [4, 5]
    assert [item.number for item in log.summaries(after=1, limit=3)] == [3, 4, 5]


def test_the_history_of_a_need_begins_when_it_was_first_short_and_shows_when_it_recovered() -> None:
    log = CycleLog()
    for number, situation in enumerate((MET, SHORT, SHORT, MET), start=1):
        log.add(cycle_of(situation, number))
    assert log.history(KEY) == (
        PastVerdict(2, "NO_MATCHING_SUPPLY"),
        PastVerdict(3, "NO_MATCHING_SUPPLY"),
        PastVerdict(4, "SATISFIED"),
    )
    assert log.history(NeedRef("a", "another")) == ()


def test_nothing_grows_for_ever() -> None:
    log = CycleLog()
    view = cycle_of(SHORT)
    for _ in range(CYCLES_KEPT + 10):
        log.add(view)
    assert len(log.summaries()) == CYCLES_KEPT
    assert len(log.history(KEY)) == HISTORY
