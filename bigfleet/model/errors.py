"""The root of every error that BigFleet raises on purpose.

Why: a caller that wants "anything we foresaw" catches one type; everything else is a defect and keeps its traceback.

    BigFleetError
    ├── InvalidFieldError        one field of some input holds what it may not hold
    │   ├── InvariantError       a machine record breaks a rule of its state
    │   └── BeyondLimitError     more or longer than the limits allow, and otherwise well formed
    ├── IllegalTransitionError   a write that is not one of the thirteen edges
    ├── UnknownMachineError      an id the inventory does not hold
    └── DuplicateMachineError    an id the inventory holds already
"""


class BigFleetError(Exception):
    """Something foreseen went wrong; the text is fit for a person."""


SHOWN_CHARACTERS = 120
"""How much an error shows of a text that it refuses, and of the path to it."""


def cut(text: str, limit: int = SHOWN_CHARACTERS) -> str:
    """The beginning of a text, with a mark and its length when it is longer; for people."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


class InvalidFieldError(BigFleetError):
    """One field of some input holds what it may not hold; of a long text the error keeps the beginning only."""

    def __init__(self, field: str, found: object, allowed: str) -> None:
        self.field, self.allowed = _cut_path(field), allowed
        self.found = cut(found) if isinstance(found, str) else found
        super().__init__(
            f"{self.field}: found {cut(repr(self.found), 2 * SHOWN_CHARACTERS)}, allowed is {allowed}"
        )

    def under(self, prefix: str) -> "InvalidFieldError":
        """Return the same error as seen one level further out, its field prefixed with the path to it."""
        separator = "" if self.field.startswith("[") else "."
        return type(self)(f"{prefix}{separator}{self.field}", self.found, self.allowed)


def _cut_path(field: str) -> str:
    """A path keeps both its ends: where the field is, and which one it is."""
    if len(field) <= 4 * SHOWN_CHARACTERS:
        return field
    return f"{field[:SHOWN_CHARACTERS]}…{field[-SHOWN_CHARACTERS:]}"


class InvariantError(InvalidFieldError):
    """A machine record breaks a rule of its state."""


class BeyondLimitError(InvalidFieldError):
    """There is more of something, or it is longer, than the limits allow."""


class IllegalTransitionError(BigFleetError):
    """A write would move a machine along an edge that does not exist."""

    def __init__(self, machine_id: str, before: str, after: str, allowed: str) -> None:
        super().__init__(
            f"machine {machine_id}: {before} to {after} is no legal transition; from {before} only {allowed}"
        )
        self.machine_id, self.before, self.after = machine_id, before, after


class UnknownMachineError(BigFleetError):
    """The inventory holds no machine of this id."""

    def __init__(self, machine_id: str) -> None:
        super().__init__(f"machine {machine_id}: not in the inventory")
        self.machine_id = machine_id


class DuplicateMachineError(BigFleetError):
    """The inventory holds a machine of this id already."""

    def __init__(self, machine_id: str) -> None:
        super().__init__(f"machine {machine_id}: already in the inventory")
        self.machine_id = machine_id
