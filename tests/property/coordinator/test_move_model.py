"""Random runs of shards that share a provider, and the proof that they would notice a missing rule.

The runs hold that no machine has two owners, none that is bound is let go, and none stays without owner after a quiet time
(`coordinator#partition-assign`, `coordinator#move-steps`, `coordinator#move-marks`).
"""

import importlib

import pytest

from tests.planted.faults import Fault
from tests.planted.planting import planted
from tests.support.move_model import run

RUNS, LONG_RUNS, STEPS = 2000, 36_000, 400
_RELOADED = (
    "bigfleet.coordinator.core",
    "bigfleet.model.ownership",
    "bigfleet.shard.core.move_rulings",
    "bigfleet.shard.core.ownership_rulings",
    "tests.support.move_model",
)
_ENOUGH = 200  # runs that notice every fault

_PARTITION, _MOVES = "bigfleet/coordinator/core/partition", "bigfleet/coordinator/core/moves"
_LEDGER, _OWNERSHIP = "bigfleet/coordinator/core/ledger", "bigfleet/model/ownership"
_RULINGS, _DOMAINS = "bigfleet/shard/core/move_rulings", "bigfleet/shard/core/ownership_rulings"


def fault(what: str, module: str, line: str, instead: str) -> Fault:
    return Fault(what, module, line, instead, "the move model")


FAULTS = (
    fault(
        "a domain is assigned while another view holds it",
        _PARTITION,
        "if (held is not None and pair in held.held) or (",
        "if (",
    ),
    fault(
        "an assignment on its way to another shard does not count",
        _PARTITION,
        " or (sent is not None and pair in sent.assigning)",
        "",
    ),
    fault(
        "a domain is assigned before every shard has shown what it holds",
        _PARTITION,
        "if not self._soft.has_settled(other) or _owns_all_of_it(",
        "if _owns_all_of_it(",
    ),
    fault(
        "a domain is assigned before its new owner knows its moved machines",
        _PARTITION,
        " and _knows_moves(shard, mine, pair, tables)",
        "",
    ),
    fault(
        "a released machine is still claimed by its domain",
        _OWNERSHIP,
        "        if machine_id in self.released:\n            return Claim.FOREIGN\n",
        "",
    ),
    fault(
        "a bound machine of a domain being left is anybody's",
        _OWNERSHIP,
        "return Claim.IF_MARKED",
        "return Claim.OWN",
    ),
    fault(
        "a domain leaves the view while machines are left in it",
        _DOMAINS,
        "    draft.leaving = leaving\n",
        "    draft.leaving = set()\n",
    ),
    fault(
        "a bound machine is let go with its domain", _DOMAINS, "if state not in _LET_GO_IN:", "if not state:"
    ),
    fault("a bound machine is released", _RULINGS, "else known.free", "else True"),
    fault("a release leaves no mark", _RULINGS, "        draft.released[machine_id] = move.move_seq\n", ""),
    fault(
        "a release keeps the adopted mark",
        _RULINGS,
        "        draft.adopted.pop(machine_id, None)\n        draft.released[",
        "        draft.released[",
    ),
    fault(
        "what the donor kept counts as released",
        _MOVES,
        "    gone = [machine_id for machine_id in open_ids if machine_id in ack.machine_ids]\n",
        "    gone = open_ids\n",
    ),
    fault(
        "a machine is adopted before it is released",
        _MOVES,
        "            if row.phase == MoveState.RELEASING:\n                return None\n",
        "",
    ),
    fault(
        "the home is not told that its machine is another's",
        _MOVES,
        "concerned = row.home == shard or self._shows(shard, row)",
        "concerned = False",
    ),
    fault(
        "a holder that lost its file is not told what it adopted",
        _MOVES,
        "            if machine_id not in view.adopted:\n                return _Wanted(MovePhase.ADOPT",
        "            if False:\n                return _Wanted(MovePhase.ADOPT",
    ),
    fault(
        "a released mark is never cleared",
        _MOVES,
        "            if not any(machine_id in other.adopted for other in views):",
        "            if False:",
    ),
    fault(
        "a kept machine stays in the air",
        _MOVES,
        '        found.append(commands.move_step("move_cancel"',
        '        (lambda _: None)(("move_cancel"',
    ),
    fault(
        "a domain that changes its owner keeps the home of its machines",
        "bigfleet/coordinator/core/tables",
        "            self.moves[provider][machine_id] = row._replace(home=shard)",
        "            self.moves[provider][machine_id] = row",
    ),
)


@pytest.mark.rule(
    "coordinator#partition-assign",
    "coordinator#leaving-domain",
    "coordinator#ownership-file",
    "coordinator#move-steps",
)
def test_no_machine_has_two_owners_in_any_run() -> None:
    for seed in range(RUNS):
        run(seed, STEPS)


@pytest.mark.long
def test_no_machine_has_two_owners_in_many_runs() -> None:
    for seed in range(RUNS, RUNS + LONG_RUNS):
        run(seed, STEPS)


@pytest.mark.parametrize("planted_fault", FAULTS, ids=lambda each: each.what)
def test_a_missing_rule_is_noticed(planted_fault: Fault) -> None:
    assert any(_breaks(planted_fault))


def _breaks(planted_fault: Fault | None) -> list[bool]:
    """Whether the runs notice a fault; they end with the first that does."""
    with planted(planted_fault, _RELOADED):
        model = importlib.import_module("tests.support.move_model")
        for seed in range(_ENOUGH):
            try:
                model.run(seed, STEPS)
            except Exception:  # a fault may show itself in any way
                return [True]
    return [False]


def test_the_modules_without_a_fault_are_not_blamed() -> None:
    assert _breaks(None) == [False]
