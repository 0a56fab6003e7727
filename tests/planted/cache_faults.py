"""Deliberate faults in what a planner keeps from cycle to cycle, and the test of the planner that must notice each.

Whoever keeps an answer must know every reason for which it no longer holds; each fault forgets one.
"""

from tests.planted.faults import Fault

_FLEET = "bigfleet/engine/fleet"
_KINDS = "bigfleet/engine/kinds"
_PLANNER = "bigfleet/engine/planner"
_ASKS = "bigfleet/engine/asks"
_RUN = "bigfleet/engine/phase1/cluster_run"

CACHES: tuple[Fault, ...] = (
    Fault(
        "host names are kept when machines come back (engine#hostname-domain)",
        _FLEET,
        "        return False  # ids are host names",
        "        pass",
        "test_a_machine_that_was_left_out_for_a_while_has_a_host_name_of_its_own",
    ),
    Fault(
        "the clock is not looked at when nothing else changed",
        _PLANNER,
        "        and before.now <= now.now < next_due",
        "",
        "test_an_idle_machine_is_released_when_its_hold_is_over_though_nothing_else_changed",
    ),
    Fault(
        "clusters whose machines changed are kept",
        _PLANNER,
        "        dirty = set(changes.clusters)",
        "        dirty: set[str] = set()",
        "test_a_lost_machine_opens_its_clusters_need_again",
    ),
    Fault(
        "clusters whose rows changed are kept",
        _PLANNER,
        "        dirty |= set(came)\n",
        "",
        "test_a_gang_that_did_not_change_still_counts_on_what_it_will_take",
    ),
    Fault(
        "clusters without rows are kept",
        _PLANNER,
        "        dirty |= old.keys() - new.keys()\n",
        "",
        "test_a_cluster_without_demand_gives_its_machines_back",
    ),
    Fault(
        "parked gangs are kept as they were",
        _PLANNER,
        "            dirty |= {gang.cluster for gang in asked.parked ^ before.parked}",
        "            pass",
        "test_a_gang_that_was_parked_looks_at_shared_supply_no_longer",
    ),
    Fault(
        "folds are kept when supply changes",
        _PLANNER,
        "        return fleet, dirty, changes.kinds_in_supply",
        "        return fleet, dirty, False",
        "test_gangs_fold_when_a_machine_appears_that_holds_one_whole",
    ),
    Fault(
        "gangs that counted on shared supply are not looked at again",
        _PLANNER,
        "            if name not in replanned and kept.run.waits",
        "            if False",
        "test_a_gang_that_counted_on_shared_supply_is_looked_at_again_when_that_changes",
    ),
    Fault(
        "a gang whose choice changed keeps its old one",
        _RUN,
        "            if domain != before.domain:",
        "            if False:",
        "test_a_gang_that_counted_on_shared_supply_is_looked_at_again_when_that_changes",
    ),
    Fault(
        "a kept gang no longer counts on the machines it will take",
        _RUN,
        "            gang.count_on(supply, before)",
        "            pass",
        "test_a_gang_that_did_not_change_still_counts_on_what_it_will_take",
    ),
    Fault(
        "stamps that changed are not noticed",
        _FLEET,
        '_COMPARED = ("state", "cluster", "shape", "assignment", "id_offset")',
        '_COMPARED = ("state", "cluster", "shape", "id_offset")',
        "test_a_stamp_that_changed_changes_what_is_kept_first",
    ),
    Fault(
        "shapes that changed are not noticed",
        _FLEET,
        '_COMPARED = ("state", "cluster", "shape", "assignment", "id_offset")',
        '_COMPARED = ("state", "cluster", "assignment", "id_offset")',
        "test_a_price_that_changed_changes_who_is_taken_first",
    ),
    Fault(
        "a row with another machine in it is not noticed",
        _FLEET,
        '_COMPARED = ("state", "cluster", "shape", "assignment", "id_offset")',
        '_COMPARED = ("state", "cluster", "shape", "assignment")',
        "test_a_machine_that_took_over_the_row_of_another_is_kept_in_the_order_of_its_own_id",
    ),
    Fault(
        "pools are kept when supply changes",
        _FLEET,
        "            self._move_in_pools(known, gone, were, changed)",
        "            pass",
        "test_a_machine_that_became_free_is_there_to_be_taken",
    ),
    Fault(
        "a machine that became another kind stays among those of its old kind",
        _FLEET,
        "left, joined = gone[state], changed[self.state[changed] == state]",
        "left, joined = gone[state] & (self.state[known] != state), changed[self.state[changed] == state]",
        "test_a_free_machine_that_became_smaller_is_found_among_those_of_its_size",
    ),
    Fault(
        "pools are kept when machines come and change the places of all others",
        _FLEET,
        "            self._pools = {}  # ranks mean something else now",
        "            pass",
        "test_a_gang_that_counted_on_shared_supply_is_looked_at_again_when_that_changes",
    ),
    Fault(
        "what new demand wants is not held against the scale",
        _PLANNER,
        "            self._wanted = Amounts.union((self._wanted, wanted))\n",
        "",
        "test_amounts_finer_than_any_before_are_counted_exactly",
    ),
    Fault(
        "new stamps are not read",
        _FLEET,
        "        self.stamps.grow()\n",
        "",
        "test_a_gangs_own_machine_is_told_by_a_stamp_that_is_new",
    ),
    Fault(
        "machines that left stay among their cluster's members",
        _FLEET,
        "stayed = old.rows[~touched[old.rows]] if old is not None else _NO_ROWS",
        "stayed = old.rows if old is not None else _NO_ROWS",
        "test_a_machine_that_joined_another_cluster_counts_there_and_no_longer_here",
    ),
    Fault(
        "a label that demand names only now does not split kinds",
        _PLANNER,
        "        named <= fleet.kinds.named.union(fleet.named_wide)\n        and ",
        "        ",
        "test_a_label_that_nobody_asked_about_tells_machines_apart_once_somebody_does",
    ),
    Fault(
        "amounts finer than the scale are rounded",
        _KINDS,
        "            return self if self.scale.serves(wanted, self.offered, terms) else None",
        "            return self",
        "test_amounts_finer_than_any_before_are_counted_exactly",
    ),
    Fault(
        "an inventory whose numbers mean something else is taken for the same",
        _FLEET,
        "            snapshot.shapes is last.shapes\n            and snapshot.assignments is last.assignments\n"
        "            and snapshot.clusters is last.clusters\n            and ",
        "            ",
        "test_an_inventory_that_was_compacted_is_read_anew",
    ),
    Fault(
        "sorts of needs are kept when kinds come (engine#open-demand)",
        _ASKS,
        "return self.kinds is kinds and len",
        "return len",
        "test_a_need_that_stays_open_takes_a_machine_of_a_kind_that_is_new",
    ),
    Fault(
        "sorts of needs are kept for ever (engine#open-demand)",
        _ASKS,
        "len(self.needs) <= 2 * needs + _SPARE",
        "len(self.needs) >= 0",
        "test_sorts_of_needs_that_nothing_asks_for_any_more_are_forgotten",
    ),
    Fault(
        "a verdict that is read late counts the machines of a later cycle",
        "bigfleet/engine/verdicts",
        "self._counts = dict(fleet.counts)",
        "self._counts = fleet.counts",
        "test_a_verdict_read_late_counts_the_machines_of_its_own_cycle",
    ),
    Fault(
        "a reported cluster is not noticed",
        _PLANNER,
        "        and before.reported == now.reported\n",
        "",
        "test_a_cluster_that_reported_meanwhile_gives_back_what_it_does_not_need",
    ),
)
