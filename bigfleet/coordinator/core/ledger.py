"""The ledger of machines that move between shards: seven commands, each one step of `coordinator#ledger` and
`coordinator#move-steps`.

Why: committed steps order a move, never a clock (`coordinator#ledger`), so that no failover, late instruction or
repeated command gives a machine two owners. No code proposes these steps yet; the rebalancer comes in a later version.
Must never: delete a row in any step but `forget`; change some machines of a command and refuse others.
Rules: `coordinator#commands`, `coordinator#restore`, `coordinator#relearn`, `coordinator#ledger`,
`coordinator#move-steps`, `coordinator#partition-mode`.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from bigfleet.coordinator.core.results import (
    DONE,
    CommandDone,
    CommandOutcome,
    CommandRefused,
    RefusalCode,
)
from bigfleet.coordinator.core.tables import MoveRow, MoveState, Tables

MAX_MOVES: Final = 100_000

Rows = dict[str, MoveRow]


def begin(
    tables: Tables,
    *,
    provider: str,
    machines: Mapping[str, str],
    key: str,
    from_shard: str,
    to_shard: str,
    flow: str,
    at_ns: int,
) -> CommandOutcome:
    """Record machines (id to domain value) as moving: step 2. All of them or none."""
    for shard in (from_shard, to_shard):
        if shard not in tables.shards:
            return CommandRefused(RefusalCode.SHARD_NOT_FOUND, f"shard {shard} is not registered")
    if from_shard == to_shard:
        return CommandRefused(
            RefusalCode.INVALID, f"to: found {to_shard}, allowed is another shard than from"
        )
    found = {machine_id: tables.move(provider, machine_id) for machine_id in machines}
    begun = [
        row.seq for row in found.values() if row and (row.flow, row.holder) == (flow, to_shard) and row.flow
    ]
    if len(begun) == len(machines):
        return CommandDone(max(begun))
    for machine_id, row in found.items():
        if row and not (row.phase == MoveState.HELD and row.holder == from_shard):
            detail = f"machine {machine_id} is {row.phase} with shard {row.holder}, not held by {from_shard}"
            return CommandRefused(RefusalCode.MOVE_CONFLICT, detail, row.holder)
    if tables.move_count + sum(row is None for row in found.values()) > MAX_MOVES:
        return CommandRefused(RefusalCode.LEDGER_FULL, f"the ledger holds {MAX_MOVES} machines at most")
    tables.move_seq += 1
    for machine_id, value in machines.items():
        row = MoveRow(
            key=key,
            value=value,
            home=tables.owner_of(key, value),
            from_shard=from_shard,
            holder=to_shard,
            phase=MoveState.RELEASING.value,
            seq=tables.move_seq,
            flow=flow,
            at_ns=at_ns,
            replaces=0,
        )
        tables.put_move(provider, machine_id, row)
    return CommandDone(tables.move_seq)


def released(tables: Tables, provider: str, ids: Sequence[str], seq: int) -> CommandOutcome:
    """Record that the donor has released the machines durably: step 3."""
    return _step(tables, (provider, ids, seq), MoveState.RELEASING, MoveState.ADOPTING)


def settled(tables: Tables, provider: str, ids: Sequence[str], seq: int) -> CommandOutcome:
    """Record that the recipient has adopted the machines: step 4."""
    return _step(tables, (provider, ids, seq), MoveState.ADOPTING, MoveState.HELD)


def cancel(tables: Tables, provider: str, ids: Sequence[str], seq: int) -> CommandOutcome:
    """Record that the donor kept the machines."""
    rows = _rows(tables, provider, ids, seq)
    if isinstance(rows, CommandRefused):
        return rows
    for machine_id, row in rows.items():
        done = row.phase == MoveState.HELD and row.holder == row.from_shard
        if not done and row.phase != MoveState.RELEASING:
            return _wrong_phase(machine_id, row, MoveState.RELEASING)
    for machine_id, row in rows.items():
        held = row._replace(holder=row.from_shard, phase=MoveState.HELD.value)
        tables.put_move(provider, machine_id, held)
    return DONE


def give_back(tables: Tables, provider: str, ids: Sequence[str], seq: int) -> CommandOutcome:
    """Return machines that the recipient did not adopt to their home, under a new number: step 5."""
    current = {machine_id: tables.move(provider, machine_id) for machine_id in ids}
    returned = [row.seq for row in current.values() if row and row.replaces == seq]
    if len(returned) == len(current):
        return CommandDone(max(returned))
    rows = _rows(tables, provider, ids, seq)
    if isinstance(rows, CommandRefused):
        return rows
    for machine_id, row in rows.items():
        if row.phase != MoveState.ADOPTING:
            return _wrong_phase(machine_id, row, MoveState.ADOPTING)
        if row.home in ("", row.holder):
            detail = f"machine {machine_id} has no home other than its holder {row.holder}"
            return CommandRefused(RefusalCode.MOVE_STALE, detail)
    tables.move_seq += 1
    for machine_id, row in rows.items():
        back = row._replace(
            from_shard=row.holder,
            holder=row.home,
            phase=MoveState.RELEASING.value,
            seq=tables.move_seq,
            replaces=seq,
        )
        tables.put_move(provider, machine_id, back)
    return CommandDone(tables.move_seq)


def forget(tables: Tables, provider: str, ids: Sequence[str], seq: int) -> CommandOutcome:
    """Delete the rows of machines that are back in their domain or gone; absent rows are no error."""
    known = [machine_id for machine_id in ids if tables.move(provider, machine_id)]
    rows = _rows(tables, provider, known, seq)
    if isinstance(rows, CommandRefused):
        return rows
    for machine_id in rows:
        tables.drop_move(provider, machine_id)
    return DONE


def learn(
    tables: Tables,
    *,
    provider: str,
    machines: Mapping[str, str],
    key: str,
    from_shard: str,
    holder: str,
    seq: int,
    at_ns: int,
) -> CommandOutcome:
    """Record a move that shards remember and a restored snapshot lacks (`coordinator#restore`, `coordinator#relearn`).

    Without machines it only keeps later numbers above one that a shard has seen.
    """
    if not tables.relearn:
        return CommandRefused(RefusalCode.MOVE_STALE, "the coordinator is not re-learning")
    for machine_id in machines:
        row = tables.move(provider, machine_id)
        if row and (row.seq, row.holder) != (seq, holder):
            detail = f"machine {machine_id} has number {row.seq} with shard {row.holder}"
            return CommandRefused(RefusalCode.MOVE_STALE, detail)
    added = [machine_id for machine_id in machines if not tables.move(provider, machine_id)]
    if tables.move_count + len(added) > MAX_MOVES:
        return CommandRefused(RefusalCode.LEDGER_FULL, f"the ledger holds {MAX_MOVES} machines at most")
    tables.move_seq = max(tables.move_seq, seq)
    for machine_id in added:
        value = machines[machine_id]
        home = tables.owner_of(key, value) or from_shard
        phase = MoveState.HELD.value
        row = MoveRow(key, value, home, from_shard, holder, phase, seq, "", at_ns, 0)
        tables.put_move(provider, machine_id, row)
    return DONE


def settle_destroyed(tables: Tables, shard: str) -> None:
    """Send home what a destroyed shard held, and treat as released what it had not released.

    Rows it held without another home are deleted: no other shard can own those machines.
    Rules: `coordinator#ledger`, `coordinator#partition-mode`.
    """
    places = [(provider, machine_id) for provider, rows in tables.moves.items() for machine_id in rows]
    for provider, machine_id in places:
        row = tables.moves[provider][machine_id]
        home = "" if row.home == shard else row.home
        if row.holder == shard:
            if not home:
                tables.drop_move(provider, machine_id)
                continue
            tables.move_seq += 1
            row = row._replace(
                from_shard=shard, holder=home, phase=MoveState.ADOPTING.value, seq=tables.move_seq, replaces=0
            )
        elif row.from_shard == shard and row.phase == MoveState.RELEASING:
            row = row._replace(phase=MoveState.ADOPTING.value)
        if (settled_row := row._replace(home=home)) != tables.moves[provider][machine_id]:
            tables.put_move(provider, machine_id, settled_row)


def _step(
    tables: Tables, which: tuple[str, Sequence[str], int], before: MoveState, after: MoveState
) -> CommandOutcome:
    provider, ids, seq = which
    rows = _rows(tables, provider, ids, seq)
    if isinstance(rows, CommandRefused):
        return rows
    order = list(MoveState)
    for machine_id, row in rows.items():
        cancelled = row.phase == MoveState.HELD and row.holder == row.from_shard
        if cancelled or order.index(MoveState(row.phase)) < order.index(before):
            return _wrong_phase(machine_id, row, before)
    for machine_id, row in rows.items():
        if row.phase == before:
            tables.put_move(provider, machine_id, row._replace(phase=after.value))
    return DONE


def _rows(tables: Tables, provider: str, ids: Sequence[str], seq: int) -> Rows | CommandRefused:
    rows: Rows = {}
    for machine_id in ids:
        row = tables.move(provider, machine_id)
        if row is None or row.seq != seq:
            found = "no row" if row is None else f"number {row.seq}"
            return CommandRefused(
                RefusalCode.MOVE_STALE, f"machine {machine_id} has {found}, not number {seq}"
            )
        rows[machine_id] = row
    return rows


def _wrong_phase(machine_id: str, row: MoveRow, wanted: MoveState) -> CommandRefused:
    return CommandRefused(RefusalCode.MOVE_STALE, f"machine {machine_id} is {row.phase}, not {wanted}")
