"""Decides whether a recorded history of calls could have come from one copy of the data.

Why: stale reads and lost writes look harmless one by one; only the order of all calls of all clients shows them.
Must never: know what the calls mean; a model says which answers a state allows.
Rules: `coordinator#linearizable-reads`.

The search is the usual one: take any call that began before every call still open has ended, apply it to the model, go on; remember
which (calls done, state) were tried. A call of unknown outcome may take effect at any time after it began, or never.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Op = TypeVar("Op")
State = TypeVar("State", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Event(Generic[Op]):
    """One call: when it began, when its answer came (None if the outcome is unknown), and what was asked and answered."""

    began: int
    ended: int | None
    op: Op


Step = Callable[[State, Op, bool], Iterable[State]]
"""Given a state, a call and whether its outcome is known: the states after it; none if the answer does not fit."""


@dataclass(frozen=True, slots=True)
class Verdict(Generic[Op]):
    """Whether a history is linearizable; if not, how far an order could be found and which calls then fit nowhere."""

    ok: bool
    explained: int
    stuck: tuple[Event[Op], ...] = ()


def check(history: Sequence[Event[Op]], initial: State, step: Step[State, Op]) -> Verdict[Op]:
    """Search for one order of all calls that every answer fits."""
    known = sorted((event for event in history if event.ended is not None), key=_by_beginning)
    unknown = sorted((event for event in history if event.ended is None), key=_by_beginning)
    search = _Search(known, unknown, step)
    return search.run(initial)


def _by_beginning(event: Event[Op]) -> tuple[int, int]:
    return event.began, event.ended or 0


class _Search(Generic[Op, State]):
    """A depth-first search over (first open call, calls done behind it, unknown calls used, state)."""

    def __init__(
        self, known: Sequence[Event[Op]], unknown: Sequence[Event[Op]], step: Step[State, Op]
    ) -> None:
        self._known, self._unknown, self._step = known, unknown, step
        self._best = 0
        self._stuck: tuple[Event[Op], ...] = ()

    def run(self, initial: State) -> Verdict[Op]:
        start = (0, 0, 0, initial)
        seen = {start}
        stack = [start]
        while stack:
            first, done, used, state = stack.pop()
            if first == len(self._known):
                return Verdict(True, len(self._known))
            candidates, limit = self._candidates(first, done)
            self._note(first, done, candidates)
            # Unknown ones are pushed first, so that they are tried last.
            for place, event in enumerate(self._unknown):
                if event.began > limit:
                    break
                if not used >> place & 1:
                    for after in self._step(state, event.op, False):
                        if after != state:
                            self._push(stack, seen, (first, done, used | 1 << place, after))
            for place in reversed(candidates):
                for after in self._step(state, self._known[place].op, True):
                    self._push(stack, seen, (*_advanced(first, done | 1 << (place - first)), used, after))
        return Verdict(False, self._best, self._stuck)

    def _candidates(self, first: int, done: int) -> tuple[list[int], int]:
        """Return the open calls that may come next, and the moment before which one must have begun to be among them."""
        open_calls: list[int] = []
        limit: int | None = None
        for place in range(first, len(self._known)):
            event = self._known[place]
            if limit is not None and event.began > limit:
                break
            if not done >> (place - first) & 1:
                open_calls.append(place)
                ended = event.ended or 0
                limit = ended if limit is None else min(limit, ended)
        bound = limit or 0
        return [place for place in open_calls if self._known[place].began <= bound], bound

    def _note(self, first: int, done: int, candidates: list[int]) -> None:
        explained = first + done.bit_count()
        if explained >= self._best:
            self._best = explained
            self._stuck = tuple(self._known[place] for place in candidates)

    @staticmethod
    def _push(
        stack: list[tuple[int, int, int, State]],
        seen: set[tuple[int, int, int, State]],
        node: tuple[int, int, int, State],
    ) -> None:
        if node not in seen:
            seen.add(node)
            stack.append(node)


def _advanced(first: int, done: int) -> tuple[int, int]:
    """Move the first open call past those that are done."""
    while done & 1:
        first, done = first + 1, done >> 1
    return first, done
