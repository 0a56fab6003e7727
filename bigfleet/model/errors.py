"""The root of every error that BigFleet raises on purpose.

Why: a caller that wants "anything we foresaw" catches one type; everything else is a defect and keeps its traceback.

    BigFleetError
    ├── InvalidFieldError        one field of some input holds what it may not hold
    │   └── InvariantError       a machine record breaks a rule of its state
    ├── IllegalTransitionError   a write that is not one of the thirteen edges
    ├── UnknownMachineError      an id the inventory does not hold
    └── DuplicateMachineError    an id the inventory holds already
"""


class BigFleetError(Exception):
    """Something foreseen went wrong; the text is fit for a person."""


class InvalidFieldError(BigFleetError):
    """One field of some input holds what it may not hold."""

    def __init__(self, field: str, found: object, allowed: str) -> None:
        super().__init__(f"{field}: found {found!r}, allowed is {allowed}")
        self.field, self.found, self.allowed = field, found, allowed

    def under(self, prefix: str) -> "InvalidFieldError":
        """Return the same error as seen one level further out, its field prefixed with the path to it."""
        separator = "" if self.field.startswith("[") else "."
        return type(self)(f"{prefix}{separator}{self.field}", self.found, self.allowed)


class InvariantError(InvalidFieldError):
    """A machine record breaks a rule of its state."""


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
