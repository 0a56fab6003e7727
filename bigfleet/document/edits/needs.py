"""Edits of demand: other priorities and sizes, needs that come and go, gangs that are parked or try again.

Must never: make a need that a snapshot document could not hold; see `bigfleet.document.edits.machines`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from bigfleet.document.edits.draft import Draft, DraftNeed, is_gang
from bigfleet.document.edits.selectors import NeedSelector, read_need_selector
from bigfleet.document.errors import DocumentError, quoted
from bigfleet.document.fields import REQUIRED, Fields, Form
from bigfleet.document.needs import NEED, NeedReader, need_object
from bigfleet.model.need import Need
from bigfleet.model.resources import Resources

Raw = Mapping[str, object]

PATCH: Form = {name: default if name != "cluster" else "" for name, default in NEED.items()}

ADD_NEED: Form = {"edit": REQUIRED, "like": None, "need": {}}
REMOVE_NEEDS: Form = {"edit": REQUIRED, "where": REQUIRED}
CHANGE_NEEDS: Form = {
    "edit": REQUIRED,
    "where": REQUIRED,
    "to": {},
    "scale": None,
    "drop_requirements": [],
}
PARK: Form = {"edit": REQUIRED, "where": REQUIRED}
UNPARK: Form = PARK


@dataclass(frozen=True, slots=True)
class AddNeed:
    """One more need, at the end of the list."""

    like: int | None
    need: Raw

    def apply(self, draft: Draft) -> None:
        """Put it into the draft."""
        raw: dict[str, object] = {}
        if self.like is not None:
            model = next((row for row in draft.rows if row.number == self.like), None)
            if model is None:
                raise DocumentError("like", str(self.like), "the number of a need that is there")
            raw = need_object(model.need)
        draft.add_need(_read({**raw, **self.need}, "need"))


@dataclass(frozen=True, slots=True)
class RemoveNeeds:
    """Demand that is withdrawn."""

    where: NeedSelector

    def apply(self, draft: Draft) -> None:
        """Take it out of the draft; the others keep their numbers."""
        gone = {row.number for row in self.where.of(draft)}
        draft.rows = [row for row in draft.rows if row.number not in gone]


@dataclass(frozen=True, slots=True)
class ChangeNeeds:
    """Needs that become different; they stay the same needs, whatever their fingerprint becomes."""

    where: NeedSelector
    to: Raw
    scale: Fraction | None
    drop_requirements: tuple[str, ...]

    def apply(self, draft: Draft) -> None:
        """Put the changed needs in their places."""
        draft.replace_needs({row.number: self._changed(row.need) for row in self.where.of(draft)})

    def _changed(self, need: Need) -> Need:
        made = _read({**need_object(need), **self.to}, "to")
        if self.scale is not None:
            made = replace(made, total=scaled(made.total, self.scale))
        if not self.drop_requirements:
            return made
        keys = {item.key for item in made.profile.requirements}
        for place, key in enumerate(self.drop_requirements):
            if key not in keys:
                allowed = f"the key of a requirement: {', '.join(sorted(keys)) or 'there is none'}"
                raise DocumentError(f"drop_requirements[{place}]", quoted(key), allowed)
        kept = tuple(item for item in made.profile.requirements if item.key not in self.drop_requirements)
        return replace(made, profile=replace(made.profile, requirements=kept))


@dataclass(frozen=True, slots=True)
class Park:
    """Gangs whose acquisition is suspended, or no longer is."""

    where: NeedSelector
    parked: bool

    def apply(self, draft: Draft) -> None:
        """Mark the gangs among the needs that are selected; there must be one."""
        gangs = {row.number for row in self.where.of(draft) if is_gang(row.need)}
        if not gangs:
            raise DocumentError("where", "no gang", "a selector that matches a need with a Same requirement")
        draft.rows = [self._marked(row) if row.number in gangs else row for row in draft.rows]

    def _marked(self, row: DraftNeed) -> DraftNeed:
        return replace(row, parked=self.parked)


def scaled(amounts: Resources, factor: Fraction) -> Resources:
    """Amounts times a factor, exactly, rounded up to the smallest amount there is."""
    return Resources(
        {name: -(-amount * factor.numerator // factor.denominator) for name, amount in amounts.items()}
    )


def _read(raw: Raw, under: str) -> Need:
    try:
        return NeedReader().read(Fields(dict(raw), NEED))
    except DocumentError as error:
        raise error.under(under) from None


def read_add_need(raw: Raw, fields: Fields) -> AddNeed:
    """Read `add_need`."""
    fields.part("need", PATCH)
    like = fields.integer("like", (0, 2**31 - 1)) if "like" in raw else None
    return AddNeed(like, fields.mapping("need"))


def read_remove_needs(raw: Raw, _fields: Fields) -> RemoveNeeds:
    """Read `remove_needs`."""
    return RemoveNeeds(_where(raw))


def read_change_needs(raw: Raw, fields: Fields) -> ChangeNeeds:
    """Read `change_needs`."""
    fields.part("to", PATCH)
    scale = None
    if "scale" in raw:
        number = fields.number("scale", low=0, allowed="a finite number that is not negative")
        scale = Fraction(repr(number))  # as it was written: 0.1 is a tenth
    dropped = fields.texts("drop_requirements")
    if scale is None and not dropped and not fields.mapping("to"):
        raise DocumentError("to", "nothing", "a field to change, scale or drop_requirements")
    return ChangeNeeds(_where(raw), fields.mapping("to"), scale, dropped)


def read_park(raw: Raw, _fields: Fields) -> Park:
    """Read `park`."""
    return Park(_where(raw), parked=True)


def read_unpark(raw: Raw, _fields: Fields) -> Park:
    """Read `unpark`."""
    return Park(_where(raw), parked=False)


def _where(raw: Raw) -> NeedSelector:
    if "where" not in raw:
        raise DocumentError("where", "nothing", "an object")
    try:
        return read_need_selector(raw["where"])
    except DocumentError as error:
        raise error.under("where") from None
