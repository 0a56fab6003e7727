"""One JSON object read field by field: types, defaults, unknown names, `x-` keys.

Why: the forms of this room are tables of name and default; every rule that all fields share is here once.
Must never: guess. `true` is no number, `1.0` no integer, null no default, a misspelt name no wish for the default.
Rules: `engine#snapshot-form`, `engine#snapshot-strict`.
"""

import math
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from bigfleet.document.errors import NOTHING, DocumentError, Unreadable, entry, from_model, shown, step
from bigfleet.document.parse import RepeatedKeys
from bigfleet.model.errors import InvalidFieldError

T = TypeVar("T")

Form = Mapping[str, object]
"""Names in the order in which they are written, each with its default as JSON has it, or REQUIRED."""

Extras = Mapping[tuple[str | int, ...], Mapping[str, object]]
"""`x-` keys by the way to the object that has them, as `("machines", 3, "host")`, relative to the holder of the map."""

REQUIRED: Final = object()  # passes no check of a type, so a missing field is refused where it is read

NO_EXTRAS: Final[Extras] = {}
INT32: Final = (-(2**31), 2**31 - 1)
INT64: Final = (-(2**63), 2**63 - 1)

_X_PREFIX = "x-"
_X_DEPTH = 32
_TEXT = "text"
_WHOLE_TEXT = "text without lone surrogates"
_OBJECT = "an object"
_LIST = "a list"


class Fields:
    """An object of a document, known to have no field that its form lacks."""

    __slots__ = ("_form", "_raw", "extras")

    def __init__(self, raw: object, form: Form) -> None:
        if type(raw) is not dict:
            raise _no_object("", raw)
        self._raw: dict[str, object] = raw
        self._form = form
        self.extras: Extras = NO_EXTRAS
        if not raw.keys() <= form.keys():
            self.extras = {(): {name: _kept(name, raw[name]) for name in raw if _is_extra(name, form)}}

    def text(self, name: str) -> str:
        """A text, which may be empty."""
        value = self._raw.get(name, self._form[name])
        # Most texts are ASCII; a call for each would cost noticeable time.
        if type(value) is str and (value.isascii() or encodable(value)):
            return value
        raise self._refused(name, _WHOLE_TEXT if type(value) is str else _TEXT)

    def name(self, name: str) -> str:
        """A text that is not empty."""
        text = self.text(name) if self._raw.get(name) else ""
        if not text:
            raise self._refused(name, "a text that is not empty")
        return text

    def number(self, name: str, *, low: float = -math.inf, allowed: str = "a finite number") -> float:
        """A finite number, at least `low`; minus zero reads as zero."""
        number = _number(self._raw.get(name, self._form[name]))
        if number is None or number < low:
            raise self._refused(name, allowed)
        return number

    def number_or_null(self, name: str) -> float | None:
        """A finite number, or None for null."""
        if self._raw.get(name, self._form[name]) is None:
            return None
        return self.number(name, allowed="a finite number or null")

    def integer(self, name: str, bounds: tuple[int, int]) -> int:
        """An integer within bounds, both included."""
        value = self._raw.get(name, self._form[name])
        low, high = bounds
        if type(value) is int and low <= value <= high:
            return value
        raise self._refused(name, f"an integer from {low} to {high}")

    def flag(self, name: str) -> bool:
        """True or false."""
        value = self._raw.get(name, self._form[name])
        if type(value) is bool:
            return value
        raise self._refused(name, "true or false")

    def choice(self, name: str, choices: Mapping[str, T]) -> T:
        """One of some texts, as the value it means."""
        value = self._raw.get(name, self._form[name])
        if type(value) is str and value in choices:
            return choices[value]
        raise self._refused(name, f"one of {', '.join(choices)}")

    def dollars(self, name: str) -> float:
        """A penalty: dollars, or `"pinned"` for an infinite one."""
        if self._raw.get(name) == "pinned":
            return math.inf
        return self.number(name, low=0, allowed='dollars, a finite number that is not negative, or "pinned"')

    def mapping(self, name: str) -> dict[str, object]:
        """A map whose entries the caller has yet to look at."""
        value = self._raw.get(name, self._form[name])
        if type(value) is not dict:
            raise (
                self._refused(name, "a map of texts")
                if type(value) is not RepeatedKeys
                else _no_object(name, value)
            )
        return value

    def entries(self, name: str) -> list[object]:
        """A list whose entries the caller has yet to look at."""
        value = self._raw.get(name, self._form[name])
        if type(value) is list:
            return value
        raise self._refused(name, _LIST)

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts."""
        texts: list[str] = []
        for place, value in enumerate(self.entries(name)):
            if type(value) is not str or not encodable(value):
                raise DocumentError(f"{name}[{place}]", shown(value), _TEXT)
            texts.append(value)
        return tuple(texts)

    def texts_or_null(self, name: str) -> tuple[str, ...] | None:
        """A list of texts, or None for null."""
        value = self._raw.get(name, self._form[name])
        if value is not None and type(value) is not list:
            raise self._refused(name, "a list of texts or null")
        return None if value is None else self.texts(name)

    def part(self, name: str, form: Form) -> "Fields":
        """An object inside this one; its `x-` keys are handed on."""
        try:
            part = Fields(self._raw.get(name, self._form[name]), form)
        except DocumentError as error:
            raise error.under(name) from None
        if part.extras:
            self.extras = {**self.extras, **under((name,), part.extras)}
        return part

    def part_or_null(self, name: str, form: Form) -> "Fields | None":
        """An object inside this one, or None for null."""
        value = self._raw.get(name, self._form[name])
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self._refused(name, "an object or null")
        return self.part(name, form)

    def items(
        self, name: str, form: Form, read: Callable[["Fields"], T]
    ) -> tuple[list[T], dict[int, Extras]]:
        """A list of objects, each read; besides, the `x-` keys of those that have some, by place."""
        items: list[T] = []
        extras: dict[int, Extras] = {}
        for place, value in enumerate(self.entries(name)):
            try:
                fields = Fields(value, form)
                items.append(read(fields))
            except InvalidFieldError as error:
                raise from_model(error).under(f"{name}[{place}]") from None
            if fields.extras:
                extras[place] = fields.extras
        return items, extras

    def shown(self, name: str, otherwise: object) -> str:
        """The content of a field as a refusal shows it; `otherwise` for what is no field of this object."""
        if name not in self._form:
            return shown(otherwise)
        return shown(self._raw[name]) if name in self._raw else NOTHING

    def _refused(self, name: str, allowed: str) -> DocumentError:
        return DocumentError(name, self.shown(name, None), allowed)


def encodable(text: str) -> bool:
    """Whether a text can be written in UTF-8; JSON can spell half a character, UTF-8 can not."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def checked_texts(raw: dict[str, object], field: str) -> dict[str, str]:
    """A map of texts, or a refusal that names the entry."""
    texts: dict[str, str] = {}
    for key, value in raw.items():
        if type(value) is not str:
            raise DocumentError(f"{field}{entry(key)}", shown(value), "text")
        if not encodable(key) or not encodable(value):
            raise DocumentError(f"{field}{entry(key)}", "a lone surrogate", "text without lone surrogates")
        texts[key] = value
    return texts


def under(prefix: tuple[str | int, ...], extras: Extras) -> Extras:
    """The same `x-` keys as seen from further out."""
    return {(*prefix, *path): names for path, names in extras.items()}


def _number(value: object) -> float | None:
    if type(value) is not float and type(value) is not int:
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number + 0.0 if math.isfinite(number) else None  # + 0.0 makes zero of minus zero


def _no_object(name: str, value: object) -> DocumentError:
    if isinstance(value, RepeatedKeys):
        path = f"{name}{entry(value.key)}" if name else step(value.key)
        return DocumentError(path, "the key twice", "each key once")
    return DocumentError(name, shown(value), _OBJECT)


def _is_extra(name: str, form: Form) -> bool:
    if name in form:
        return False
    if name.startswith(_X_PREFIX):
        return True
    known = ", ".join(form)
    raise DocumentError(step(name), "an unknown field", f"one of {known}, or a key that begins with x-")


def _kept(name: str, value: object) -> object:
    """Refuse what could not be written again; everything else passes."""
    if not encodable(name):
        raise DocumentError(step(name), "a lone surrogate", _WHOLE_TEXT)
    level = [value]
    for _ in range(_X_DEPTH):
        if not level:
            return value
        level = [inner for item in level for inner in _inside(step(name), item)]
    raise DocumentError(step(name), "deeper nesting", f"at most {_X_DEPTH} levels")


def _inside(path: str, value: object) -> list[object]:
    if type(value) is list:
        return value
    if type(value) is dict:
        return [*value, *value.values()]
    flaw = (
        isinstance(value, RepeatedKeys | Unreadable)
        or (type(value) is float and not math.isfinite(value))
        or (type(value) is str and not encodable(value))
    )
    if flaw:
        found = "the key twice" if isinstance(value, RepeatedKeys) else shown(value)
        raise DocumentError(path, found, "JSON that can be written again")
    return []
