"""Reads the lock file: packages with versions, hashes and the packages that need them.

Must never: skip a line that it cannot parse.
"""

import re
from dataclasses import dataclass, field
from typing import Final

from deploy.release.errors import ReleaseError

_PINNED: Final = re.compile(r"([A-Za-z0-9._-]+)==(\S+?)(?: ; (.+?))? \\")
_HASH: Final = re.compile(r"\s+--hash=sha256:([0-9a-f]{64})(?: \\)?")


@dataclass
class Pinned:
    """One package; `marker` says where it is installed, empty for everywhere."""

    name: str
    version: str
    marker: str
    hashes: list[str] = field(default_factory=list)
    wanted_by: list[str] = field(default_factory=list)

    @property
    def reference(self) -> str:
        """The package as a package URL."""
        return f"pkg:pypi/{self.name}@{self.version}"


def read_lock(text: str) -> list[Pinned]:
    """Return every package of a hashed lock file, in its order."""
    found: list[Pinned] = []
    for number, line in enumerate(text.splitlines(), 1):
        if match := _PINNED.fullmatch(line):
            found.append(Pinned(match[1].lower().replace("_", "-"), match[2], match[3] or ""))
        elif match := _HASH.fullmatch(line):
            found[-1].hashes.append(match[1])
        elif line.startswith("    #"):
            wanted_by = line.removeprefix("    #").strip().removeprefix("via").strip()
            if wanted_by and not wanted_by.startswith("-c "):
                found[-1].wanted_by.append(wanted_by.split()[0])
        elif line and not line.startswith("#"):
            raise ReleaseError(f"lock file, line {number}: {line!r} is neither a package nor its hash")
    for package in found:
        if not package.hashes:
            raise ReleaseError(f"lock file: {package.name} {package.version} has no hash")
    return found
