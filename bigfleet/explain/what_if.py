"""A what-if: a document with and without edits, both run to the same horizon, and the differences at the end.

Why: the command line and the dashboard must give the same result.
Must never: change the document, or look further on one side than on the other.
Rules: `dashboard#what-if`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from bigfleet.document.compare import Comparison, compare
from bigfleet.document.compare_document import comparison_document
from bigfleet.document.edits import Edit, apply_edits
from bigfleet.document.snapshot import SnapshotDocument
from bigfleet.explain.changes import propose
from bigfleet.explain.document import machine_explanation_document, need_explanation_document
from bigfleet.explain.domain_ranking import DomainRecorder
from bigfleet.explain.horizon import ONE_CYCLE, Horizon, HorizonResult, run_to_horizon
from bigfleet.explain.lookup import find_need, known_machine
from bigfleet.explain.machine import explain_machine
from bigfleet.explain.need import explain_need
from bigfleet.explain.redecide import Redecider
from bigfleet.model.errors import InvalidFieldError


@dataclass(frozen=True, slots=True)
class WhatIfResult:
    """What differs, and how each side reached the horizon."""

    comparison: Comparison
    before: HorizonResult
    after: HorizonResult
    horizon: Horizon

    def document(self) -> dict[str, object]:
        """The result as JSON has it: the comparison and the horizon."""
        return comparison_document(self.comparison) | {
            "horizon": {
                "until": "quiet" if self.horizon.until_quiet else "cycle",
                "create_seconds": self.horizon.create_s,
                "drain_seconds": self.horizon.drain_s,
                "cycles": {"before": self.before.cycles, "after": self.after.cycles},
                "seconds": {"before": self.before.seconds, "after": self.after.seconds},
                "quiet": {"before": self.before.quiet, "after": self.after.quiet},
            }
        }


def run_what_if(
    document: SnapshotDocument, edits: Sequence[Edit], horizon: Horizon = ONE_CYCLE
) -> WhatIfResult:
    """Run the document and its edited copy, and compare their ends; refused edits raise with their path."""
    edited = apply_edits(document, edits)
    decide = Redecider()
    before, after = (
        run_to_horizon(document, horizon, decide),
        run_to_horizon(edited.document, horizon, decide),
    )
    found = compare(before.side, after.side, edited.numbers, states=horizon.until_quiet)
    comparison = replace(
        found,
        before=replace(found.before, actions=before.actions),
        after=replace(found.after, actions=after.actions),
    )
    return WhatIfResult(comparison, before, after, horizon)


def explain_document(
    document: SnapshotDocument,
    edits: Sequence[Edit],
    horizon: Horizon = ONE_CYCLE,
    *,
    need: str | int = "",
    machine: str = "",
    quick: bool = False,
    prefix: str = "",
) -> dict[str, Any]:
    """Explain a need or a machine of an edited document at the horizon.

    A need is given by its name or place in the edited document or, as a number, by the one that a comparison gives it, which
    is the same before and after an edit. A refusal names a field, or a flag with its prefix.
    """
    decide = Redecider()
    edited = apply_edits(document, edits)
    side = run_to_horizon(edited.document, horizon, decide).side
    recorder = DomainRecorder()
    cycle = decide.cycle(side.document, recorder)
    if machine:
        return machine_explanation_document(
            explain_machine(cycle, known_machine(cycle, machine, f"{prefix}machine"))
        )
    if isinstance(need, int):
        if need not in edited.numbers:
            raise InvalidFieldError(f"{prefix}need", str(need), "the number of a need that the edits leave")
        need = str(edited.numbers.index(need))
    place = find_need(cycle, need, f"{prefix}need")
    proposals = () if quick else propose(cycle, side.document, place, decide)
    return need_explanation_document(explain_need(cycle, place, recorder.notes, proposals))
