"""Errors that a command ends with: one line for the user, one exit code for the caller.

    BigFleetError
    ├── CommandError           the command failed; carries its exit code
    │   └── UsageError         wrong flags or input; exit 2
    └── UnreadableValueError   a text is not a value of its kind; the caller names the field

Must never: contain a secret in its text, since the text is printed.
Rules: `packaging#exit-codes`.
"""

from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.model.errors import BigFleetError


class CommandError(BigFleetError):
    """A command failed."""

    def __init__(self, text: str, code: ExitCode = ExitCode.FAILURE) -> None:
        super().__init__(text)
        self.code = code


class UsageError(CommandError):
    """A command was called with wrong flags or input."""

    def __init__(self, text: str) -> None:
        super().__init__(text, ExitCode.USAGE)


class UnreadableValueError(BigFleetError, ValueError):
    """A text is not a value of its kind."""

    def __init__(self, found: str, allowed: str) -> None:
        super().__init__(f"found {found!r}, allowed is {allowed}")
        self.found, self.allowed = found, allowed
