"""Why a release cannot be made."""


class ReleaseError(Exception):
    """A release was refused; the text is one line that says why."""
