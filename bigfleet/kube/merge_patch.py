"""The smallest JSON merge patch that turns one document into another.

Why: a patch that names only what differs conflicts with no other writer and needs no version (`operator#un-merge-patch`).
Must never: leave a removed key out, since a merge patch keeps what it does not name. Lists are replaced whole.
Rules: `operator#un-spec`, `operator#un-merge-patch`, `operator#kube-errors`; RFC 7396.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from bigfleet.kube.transport import Document
from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.quantity import parse_quantity

Path = tuple[str, ...]
Same = Callable[[Path, object, object], bool]
"""Returns whether a stored and a wanted leaf mean the same, even if they are written differently."""

_NOTHING: Final = object()


def exactly(_path: Path, stored: object, wanted: object) -> bool:
    """Treat two leaves as the same when they are equal."""
    # Python holds True == 1; JSON does not.
    return type(stored) is type(wanted) and stored == wanted


def quantities_by_value(*maps: Path) -> Same:
    """Treat amounts below these paths as the same when their values are equal: 1500m and 1.5, 1024Mi and 1Gi."""

    def same(path: Path, stored: object, wanted: object) -> bool:
        if path[:-1] in maps or path in maps:
            return _amount(stored) == _amount(wanted)
        return exactly(path, stored, wanted)

    return same


def difference(stored: Mapping[str, Any], wanted: Mapping[str, Any], same: Same = exactly) -> Document:
    """Return the patch that makes the stored document the wanted one; empty when they mean the same."""
    return _difference(stored, wanted, same, ())


def _difference(stored: Mapping[str, Any], wanted: Mapping[str, Any], same: Same, path: Path) -> Document:
    patch: Document = {name: None for name in stored if wanted.get(name) is None}
    for name, value in wanted.items():
        before = stored.get(name, _NOTHING)
        if value is None:
            continue
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            inner = _difference(before, value, same, (*path, name))
            if inner:
                patch[name] = inner
        elif before is _NOTHING or not same((*path, name), before, value):
            patch[name] = value
    return patch


def _amount(value: object) -> object:
    if isinstance(value, str | int) and not isinstance(value, bool):
        try:
            return parse_quantity(str(value))
        except InvalidFieldError:
            return value
    return value
