"""The error for a release that cannot be built."""


class ReleaseError(Exception):
    """A release was refused; the text is one line with the reason."""
