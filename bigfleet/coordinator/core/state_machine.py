"""The state machine: applies batches to the tables, on every replica in the same order.

Must never: raise from `apply`: one raising command would stop all replicas for good (`coordinator#apply-is-total`,
`coordinator#group-commit`). Must never apply anything after a level that this version does not know
(`coordinator#command-levels`).
Rules: `coordinator#commands`, `coordinator#invariants`, `coordinator#fresh-snapshot`.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, TypeVar

from bigfleet.coordinator.core.batch import BadBatchError, decode_batch
from bigfleet.coordinator.core.commands import KINDS, KNOWN_LEVEL, CommandKind
from bigfleet.coordinator.core.results import CommandRefused, RefusalCode, Result
from bigfleet.coordinator.core.table_text import read_tables, table_text
from bigfleet.coordinator.core.tables import Tables
from bigfleet.model.errors import InvalidFieldError

T = TypeVar("T")
_encode: Final = json.JSONEncoder(separators=(",", ":")).encode


class CoordinatorStateMachine:
    """The tables behind their lock; `on_outgrown` gets a level that this version does not know."""

    def __init__(
        self,
        *,
        lock: AbstractContextManager[object] | None = None,
        on_outgrown: Callable[[int], object] = lambda _level: None,
        kinds: Mapping[str, CommandKind] = KINDS,
        known_level: int = KNOWN_LEVEL,
    ) -> None:
        self._lock = lock or nullcontext()
        self._on_outgrown, self._kinds, self._known_level = on_outgrown, kinds, known_level
        self._tables = Tables()
        self._outgrown = 0

    @property
    def epoch(self) -> int:
        """The term of the last `begin_epoch` applied; 0 before the first."""
        return self._tables.epoch

    @property
    def level(self) -> int:
        """The committed level of commands; one number, so no lock is needed."""
        return self._tables.level

    def apply(self, batch: str) -> str:
        """Apply one batch and return a JSON list: one result per item, or one refusal of the whole."""
        try:
            with self._lock:
                results = self._apply(batch)
        except Exception as error:  # a defect: the same on every replica, reported and survived
            results = [_defect(error)]
        return _encode(results)

    def dump(self) -> dict[str, Any]:
        """Return a copy of all tables for JSON."""
        with self._lock:
            return table_text(self._tables)

    def load(self, tables: Mapping[str, Any]) -> None:
        """Replace all tables; raises a BigFleetError and changes nothing if they are invalid."""
        loaded = read_tables(tables, known_level=self._known_level)
        with self._lock:
            self._tables, self._outgrown = loaded, 0

    def read(self, look: Callable[[Tables], T]) -> T:
        """Call `look` with the tables under the lock; it must return a copy."""
        with self._lock:
            return look(self._tables)

    def _apply(self, batch: str) -> list[Result]:
        try:
            epoch, items = decode_batch(batch)
        except BadBatchError as error:
            return [_invalid(str(error))]
        if self._outgrown:
            detail = f"this replica stopped at level {self._outgrown}, which it does not know"
            return [CommandRefused(RefusalCode.LEVEL_UNKNOWN, detail).result()] * len(items)
        if _is_epoch(items[0]) and len(items) == 1:
            return [self._one(items[0])]
        if epoch != self._tables.epoch:
            detail = f"epoch: found {epoch}, allowed is {self._tables.epoch}"
            return [CommandRefused(RefusalCode.STALE_EPOCH, detail).result()] * len(items)
        return [
            _invalid("begin_epoch: found among other commands, allowed is alone")
            if _is_epoch(item)
            else self._one(item)
            for item in items
        ]

    def _one(self, item: object) -> Result:
        if not isinstance(item, dict):
            return _invalid("command: found no object, allowed is an object with a kind")
        name = item.get("kind")
        kind = self._kinds.get(name) if isinstance(name, str) else None
        if kind is None:
            return _invalid(f"kind: found {ascii(name)[:80]}, allowed is one of {', '.join(self._kinds)}")
        if kind.level > self._tables.level:
            detail = f"{name} needs level {kind.level}, the replicas are at level {self._tables.level}"
            return CommandRefused(RefusalCode.LEVEL_TOO_LOW, detail).result()
        try:
            verdict = kind.apply(self._tables, item)
        except InvalidFieldError as error:
            return _invalid(f"{name}: {error}")
        except Exception as error:  # as in `apply`; the other commands of the batch go on
            return _defect(error)
        if self._tables.level > self._known_level:
            self._outgrown = self._tables.level
            self._on_outgrown(self._outgrown)
        return verdict.result()


def _is_epoch(item: object) -> bool:
    return isinstance(item, dict) and item.get("kind") == "begin_epoch"


def _invalid(detail: str) -> Result:
    return CommandRefused(RefusalCode.INVALID, detail).result()


def _defect(error: Exception) -> Result:
    return CommandRefused(
        RefusalCode.DEFECT, f"defect: {type(error).__name__}: {ascii(str(error))[:200]}"
    ).result()
