"""Reads the version from the one place that states it.

Must never: import the package: the sources may have another version than the running one.
"""

import re
from pathlib import Path

from deploy.release.errors import ReleaseError

_STATED = re.compile(r'^__version__ = "(\d+\.\d+\.\d+(?:\.dev\d+)?)"$', re.MULTILINE)


def version_of(root: Path) -> str:
    """Return the version of a tree."""
    path = root / "bigfleet" / "version.py"
    found = _STATED.search(path.read_text(encoding="utf-8"))
    if found is None:
        raise ReleaseError('bigfleet/version.py: no line like __version__ = "1.2.3" or "1.2.3.dev4"')
    return found[1]
