"""The file with the highest coordinator term seen.

Why: without it a restarted shard would follow a leader that was replaced while the shard was down.
Must never: treat an unreadable file as 0.
Rules: `coordinator#shard-client`, `shard#coordinator-client`.
"""

from pathlib import PurePath
from typing import Final

from bigfleet.aio.disk import Disk, DiskCause, DiskError, atomic_write
from bigfleet.model.errors import BigFleetError

NAME: Final = "coordinator-term"
_DIGITS: Final = 19


class TermFileError(BigFleetError):
    """The file holds no term."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path}: found something else than a term, allowed is a whole number of at most {_DIGITS} digits; put back "
            "a copy, or remove the file if no coordinator that was replaced can still be running"
        )
        self.path = path


class TermFile:
    """One number in one file."""

    def __init__(self, disk: Disk, data_dir: PurePath) -> None:
        self._disk, self._path = disk, data_dir / NAME

    def load(self) -> int:
        """Return the stored term; 0 if there is no file."""
        try:
            text = self._disk.read(self._path)
        except DiskError as error:
            if error.cause is DiskCause.MISSING:
                return 0
            raise
        digits = text.strip()
        if not digits.isdigit() or len(digits) > _DIGITS:
            raise TermFileError(str(self._path))
        return int(digits)

    def store(self, term: int) -> None:
        """Make a higher term durable."""
        atomic_write(self._disk, self._path, f"{term}\n".encode())
