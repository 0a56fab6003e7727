"""The section of the change log that belongs to a version."""

import re

from deploy.release.errors import ReleaseError

UNRELEASED = "Unreleased"


def section(text: str, version: str) -> str:
    """Return the section of a version; for a development version the unreleased section."""
    wanted = UNRELEASED if "dev" in version else version
    dated = r"" if wanted == UNRELEASED else r" - \d{4}-\d{2}-\d{2}"
    found = re.search(rf"^## {re.escape(wanted)}{dated}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if found is None:
        form = f"## {wanted}" if wanted == UNRELEASED else f"## {wanted} - YYYY-MM-DD"
        raise ReleaseError(f"CHANGELOG.md: no section {form!r} for version {version}")
    if not re.search(r"^- \S", found[1], re.MULTILINE):
        raise ReleaseError(f"CHANGELOG.md: the section of {wanted} lists nothing")
    return found[1].strip() + "\n"
