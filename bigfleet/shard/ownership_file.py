"""`ownership.json` in the data directory: what this shard owns of a provider that it shares.

Why: with it a shard decides for ever without a coordinator, and a restart never takes back what was given away.
Must never: overwrite what another partition key owns, or take a damaged file for an empty one without a word.
Rules: `coordinator#ownership-file`.
"""

from pathlib import PurePath
from typing import Final

from bigfleet.aio.disk import Disk, DiskCause, DiskError, atomic_write
from bigfleet.model.errors import BigFleetError, InvalidFieldError
from bigfleet.model.ownership import Ownership
from bigfleet.shard.core.ownership_text import ownership_text, read_ownership

NAME: Final = "ownership.json"


class PartitionKeyChangedError(BigFleetError):
    """The file was written under another partition key."""

    def __init__(self, path: str, stored: str, given: str) -> None:
        super().__init__(
            f"found {given}, allowed is {stored}, by which {path} says what this shard owns; to change the key, let the shard "
            "give up its domains first, or remove it as destroyed and start it with an empty data directory"
        )
        self.path, self.stored, self.given = path, stored, given


class OwnershipFile:
    """The file of one shard and one partition key."""

    def __init__(self, disk: Disk, data_dir: PurePath, key: str) -> None:
        self._disk, self._path, self.key = disk, data_dir / NAME, key
        self.problem = ""
        """Why the file could not be used; empty if it was read, or if there is none."""

    def load(self) -> Ownership:
        """Return what the file says; an empty, unsettled ownership where it is missing or damaged."""
        try:
            text = self._disk.read(self._path).decode()
            found = read_ownership(text)
        except DiskError as error:
            if error.cause is not DiskCause.MISSING:
                raise
            return Ownership(self.key)
        except (InvalidFieldError, UnicodeDecodeError) as error:
            self.problem = f"{self._path}: {error}"
            return Ownership(self.key)
        if found.key != self.key:
            if not found.empty:
                raise PartitionKeyChangedError(str(self._path), found.key, self.key)
            return Ownership(self.key)
        return found

    def store(self, ownership: Ownership) -> None:
        """Make what the shard owns durable; raises `DiskError`, after which the old file still counts."""
        atomic_write(self._disk, self._path, ownership_text(ownership).encode())
