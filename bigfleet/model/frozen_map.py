"""An immutable, hashable mapping with text keys, iterated in key order.

Why: labels, quantities and resource vectors are shared between hundreds of thousands of records, so they must be
safe to share and cheap to intern; and no result may depend on the order in which a sender filled a map.
"""

from collections.abc import ItemsView, Iterable, Iterator, Mapping
from typing import Self, TypeVar

V = TypeVar("V")


class FrozenMap(Mapping[str, V]):
    """A mapping that never changes; equal contents are equal and hash alike."""

    __slots__ = ("_entries", "_hash")

    def __init__(self, entries: Mapping[str, V] | Iterable[tuple[str, V]] = ()) -> None:
        self._entries: dict[str, V] = dict(sorted(dict(entries).items(), key=lambda entry: entry[0]))
        self._hash: int | None = None

    def __getitem__(self, key: str) -> V:
        return self._entries[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def items(self) -> ItemsView[str, V]:
        """The entries in key order."""
        return self._entries.items()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, FrozenMap):
            return self._entries == other._entries
        return NotImplemented

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(tuple(self._entries.items()))
        return self._hash

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._entries!r})"

    def without(self, key: str) -> Self:
        """Return a copy that lacks one key."""
        return type(self)((name, value) for name, value in self._entries.items() if name != key)

    def merged(self, other: Mapping[str, V]) -> Self:
        """Return a copy with the entries of `other` added, which win."""
        return type(self)({**self._entries, **other})


NO_TEXTS: FrozenMap[str] = FrozenMap()
