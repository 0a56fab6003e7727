"""The naive twin of the decision engine: the rules line by line over plain records, slow and obviously right.

Why: the engine that runs in production earns its speed with columns, classes and memory of former cycles; whatever it
answers must be what this answers, actions in order included.
Must never: be made faster at the price of a line that the rules do not say.
Rules: `engine#cycle-order`, `engine#actions`, `engine#action-order`, `engine#acquisition-order`,
`engine#commit-broker`, `engine#effective-cost`, `engine#gang-picker`, `engine#victims`, `engine#preemption-in-flight`,
`engine#pools`, `engine#foldable`, `engine#crediting`, `engine#stamps`, `engine#spread-picker`, `engine#parking-ledger`,
`engine#incremental-equals-full`, `engine#victim-cost`, `engine#snapshot-form`, `engine#fingerprint`,
`engine#quantities`, `engine#snapshot-decision`, `engine#snapshot-parked`, `engine#prepass-order`,
`engine#machine-invariants`, `engine#examples`. The other modules beside this one name theirs.
"""

from bigfleet.model.action import Action, ActionKind
from bigfleet.model.decision import Decision
from bigfleet.model.machine import MachineState
from bigfleet.model.situation import GangRef, Situation
from tests.reference.acquire import acquire
from tests.reference.board import Board, Row
from tests.reference.fold import NormalNeed, normalise
from tests.reference.phase2 import preempt
from tests.reference.phase3 import reclaims, releases
from tests.reference.prepass import prepass
from tests.reference.supply import in_state
from tests.reference.verdicts import verdict


def decide(situation: Situation) -> Decision:
    """Decide one cycle (`engine#cycle-order`)."""
    normal = normalise(situation.machines, situation.needs)
    rows = tuple(row_of(place, entry, situation) for place, entry in enumerate(normal))
    board = Board(situation.machines, rows)
    prepass(board)
    acquire(board)
    preemption = preempt(board)
    verdicts = tuple(verdict(board, row, preemption.unresolved) for row in rows)
    actions = [
        *(action for row in rows for action in acquisitions(board, row)),
        *preemption.actions,
        *reclaims(situation, board.claimed_for.keys()),
        *releases(situation, board.claimed_for.keys()),
    ]
    return Decision(tuple(actions), verdicts, tuple(preemption.unresolved))


def row_of(place: int, entry: NormalNeed, situation: Situation) -> Row:
    """A need as Phase 1 meets it; only a gang can be parked, so entries that name no gang are ignored.

    Rules: `engine#parking-ledger`, `engine#snapshot-decision`, `engine#snapshot-parked`.
    """
    need = entry.need
    named = GangRef(need.cluster, need.group, need.profile.fingerprint) in situation.parked
    return Row(place, need, entry.folded_from, parked=named and need.profile.same_key is not None)


def acquisitions(board: Board, row: Row) -> list[Action]:
    """One need's Bootstraps, then its Provisions, ids ascending in each (`engine#actions`, `engine#action-order`)."""
    claims = board.claims_of(row)
    kinds = ((ActionKind.BOOTSTRAP, MachineState.IDLE), (ActionKind.PROVISION, MachineState.SPECULATIVE))
    return [
        Action(
            kind,
            machine.id,
            cluster=row.need.cluster,
            fingerprint=row.need.profile.fingerprint,
            group=row.need.group,
            need=row.place,
        )
        for kind, state in kinds
        for machine in in_state(claims, state)
    ]
