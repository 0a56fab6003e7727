"""Fence marks: per shard and machine the newest token that passed; per shard the highest exclusive epoch.

Why: 32 workers of one live shard must not fence each other, so a mark belongs to a pair of shard and machine (ADR-0058). It stops
an outdated shard process only on machines that its successor has touched. Shards that announce exclusive epochs are stopped
on every machine (ADR-0201).
Must never: compare across shards, wrap around, use an epoch against callers that do not announce it, forget the first
shard's mark of a known machine, or lower a mark unless a person said so.
Rules: `providers#fence-mark`, `providers#epoch-per-shard`, `providers#epoch-step`, `providers#reset-marks`. Marks of unknown machines, of further shards on one machine, and
epochs are bounded and the oldest are dropped: a lost mark reopens the window until that shard's next call.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bigfleet.provider.contract import (
    LEAST_SEQUENCE,
    MAX_FURTHER_MARKS,
    MAX_SHARD_EPOCHS,
    MAX_UNKNOWN_MARKS,
)
from bigfleet.provider.kit.core.changes import FenceMark, LowerMarks, ShardEpoch

_NOBODY = -1
_FIRST_ROWS = 1024


@dataclass(frozen=True, slots=True)
class FencingToken:
    """A fencing token: the calling shard, the epoch of its process, and the number of the call."""

    shard_id: str = ""
    epoch: int = 0
    sequence: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether the caller takes no part in fencing."""
        return not self.shard_id and not self.epoch and not self.sequence

    @property
    def position(self) -> tuple[int, int]:
        return self.epoch, self.sequence


NO_TOKEN = FencingToken()

_Position = tuple[int, int]
_Pair = tuple[str, str]  # shard id, machine id
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Fence:
    """All marks. That of a known machine's first shard is kept in columns; usually there is no other."""

    def __init__(
        self,
        unknown_kept: int = MAX_UNKNOWN_MARKS,
        further_kept: int = MAX_FURTHER_MARKS,
        epochs_kept: int = MAX_SHARD_EPOCHS,
    ) -> None:
        self._unknown_kept, self._further_kept, self._epochs_kept = unknown_kept, further_kept, epochs_kept
        self._shards: list[str] = []
        self._numbers: dict[str, int] = {}
        self._first: NDArray[np.int32] = np.full(_FIRST_ROWS, _NOBODY, dtype=np.int32)
        self._positions: NDArray[np.int64] = np.zeros((_FIRST_ROWS, 2), dtype=np.int64)
        # All in the order in which they were last written, oldest first.
        self._epochs: dict[str, int] = {}
        self._further: dict[_Pair, _Position] = {}
        self._unknown: dict[_Pair, _Position] = {}

    def mark(self, shard_id: str, machine_id: str, row: int | None) -> _Position | None:
        """Return the newest token of the shard that passed for the machine, None for none."""
        pair = (shard_id, machine_id)
        # All three places: a call may have named the machine before it was known.
        found = (self._column(shard_id, row), self._further.get(pair), self._unknown.get(pair))
        return max((position for position in found if position is not None), default=None)

    def passes(self, token: FencingToken, machine_id: str, row: int | None) -> bool:
        """Return whether a token is newer than every one seen for its shard and this machine."""
        mark = self.mark(token.shard_id, machine_id, row)
        return mark is None or token.position > mark

    def set(self, mark: FenceMark, row: int | None) -> None:
        """Record a token that passed; one older than the mark changes nothing, so marks may be loaded twice."""
        pair, position = (mark.shard_id, mark.machine_id), (mark.epoch, mark.sequence)
        known = self.mark(*pair, row)
        if known is not None and known >= position:
            return
        if row is None:
            _write(self._unknown, pair, position, self._unknown_kept)
            return
        self._reserve(row)
        if self._first[row] == _NOBODY:
            self._first[row] = self._number(mark.shard_id)
        if self._first[row] == self._numbers.get(mark.shard_id):
            self._positions[row] = position
        else:
            _write(self._further, pair, position, self._further_kept)

    def epoch(self, shard_id: str) -> int | None:
        """Return the highest exclusive epoch of a shard, None for none."""
        return self._epochs.get(shard_id)

    def raises_epoch(self, shard_id: str, epoch: int) -> bool:
        """Return whether an epoch is higher than every exclusive one seen of its shard."""
        known = self._epochs.get(shard_id)
        return known is None or epoch > known

    def is_over(self, token: FencingToken) -> bool:
        """Return whether a higher exclusive epoch of the token's shard was seen."""
        known = self._epochs.get(token.shard_id)
        return known is not None and token.epoch < known

    def set_epoch(self, change: ShardEpoch) -> None:
        """Record an exclusive epoch; a lower one than known changes nothing."""
        if self.raises_epoch(change.shard_id, change.epoch):
            _write(self._epochs, change.shard_id, change.epoch, self._epochs_kept)

    def highest_plausible(self, shard_id: str, step: int, *, announced: bool) -> int | None:
        """Return the highest epoch that a token of a shard may have, None for no bound.

        The contract bounds no epoch, so only shards that announce exclusive epochs have a bound. A token that does not
        announce stays one below it: a mark that it set can then be passed by the shard's own next announcement.
        """
        known = self._epochs.get(shard_id)
        if known is None and not announced:
            return None
        return max(known or 0, 0) + step - (not announced)

    def count_above(self, change: LowerMarks) -> int:
        """Return how many marks of a shard have a higher epoch; its exclusive epoch counts as one."""
        first = int(np.count_nonzero(self._rows_above(change)))
        further = sum(len(list(_above(pairs, change))) for pairs in (self._further, self._unknown))
        return first + further + (self._epochs.get(change.shard_id, change.epoch) > change.epoch)

    def lower(self, change: LowerMarks) -> None:
        """Lower marks to the beginning of an epoch: all tokens of that epoch pass, those of lower ones do not."""
        position = (change.epoch, LEAST_SEQUENCE)
        self._positions[self._rows_above(change)] = position
        for pairs in (self._further, self._unknown):
            for pair in list(_above(pairs, change)):
                pairs[pair] = position
        if self._epochs.get(change.shard_id, change.epoch) > change.epoch:
            self._epochs[change.shard_id] = change.epoch

    def epochs(self) -> Iterator[ShardEpoch]:
        """Yield every exclusive epoch, the oldest first."""
        for shard_id, epoch in list(self._epochs.items()):
            yield ShardEpoch(shard_id, epoch)

    def forget_row(self, row: int, machine_id: str) -> None:
        """Free a row; its mark is kept by the machine's id, as for any unknown machine."""
        if row < self._first.size and self._first[row] != _NOBODY:
            shard_id = self._shards[int(self._first[row])]
            epoch, sequence = self._positions[row].tolist()
            _write(self._unknown, (shard_id, machine_id), (epoch, sequence), self._unknown_kept)
            self._first[row] = _NOBODY

    def marks(self, rows: Iterable[tuple[str, int]]) -> Iterator[FenceMark]:
        """Yield every mark: those of the given machines and rows, then all others, the oldest first."""
        for machine_id, row in rows:
            if row < self._first.size and self._first[row] != _NOBODY:
                epoch, sequence = self._positions[row].tolist()
                yield FenceMark(self._shards[int(self._first[row])], machine_id, epoch, sequence)
        for pairs in (self._further, self._unknown):
            for (shard_id, machine_id), (epoch, sequence) in list(pairs.items()):
                yield FenceMark(shard_id, machine_id, epoch, sequence)

    def __len__(self) -> int:
        return int(np.count_nonzero(self._first != _NOBODY)) + len(self._further) + len(self._unknown)

    def _column(self, shard_id: str, row: int | None) -> _Position | None:
        if row is None or row >= self._first.size or self._first[row] == _NOBODY:
            return None
        if self._shards[int(self._first[row])] != shard_id:
            return None
        epoch, sequence = self._positions[row].tolist()
        return epoch, sequence

    def _rows_above(self, change: LowerMarks) -> NDArray[np.bool_]:
        number = self._numbers.get(change.shard_id)
        if number is None:
            return np.zeros(self._first.size, dtype=np.bool_)
        found: NDArray[np.bool_] = (self._first == number) & (self._positions[:, 0] > change.epoch)
        return found

    def _number(self, shard_id: str) -> int:
        number = self._numbers.get(shard_id)
        if number is None:
            number = self._numbers[shard_id] = len(self._shards)
            self._shards.append(shard_id)
        return number

    def _reserve(self, row: int) -> None:
        missing = row + 1 - self._first.size
        if missing > 0:
            more = max(missing, self._first.size // 2)
            self._first = np.concatenate([self._first, np.full(more, _NOBODY, dtype=np.int32)])
            self._positions = np.concatenate([self._positions, np.zeros((more, 2), dtype=np.int64)])


def _above(pairs: dict[_Pair, _Position], change: LowerMarks) -> Iterator[_Pair]:
    return (pair for pair, (epoch, _) in pairs.items() if pair[0] == change.shard_id and epoch > change.epoch)


def _write(kept: dict[_Key, _Value], key: _Key, value: _Value, most: int) -> None:
    kept.pop(key, None)
    kept[key] = value
    if len(kept) > most:
        del kept[next(iter(kept))]
