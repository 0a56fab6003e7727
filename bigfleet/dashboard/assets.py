"""The static files of the package: style sheet, scripts and icon under their digest, and the OpenAPI document.

Must never: read a file outside the package.
Rules: `dashboard#look`.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

TYPES: Final[Mapping[str, str]] = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class Assets:
    """Bodies by name, and the digest of them all, which changes whenever one of them does."""

    bodies: Mapping[str, bytes]
    digest: str

    def kind(self, name: str) -> str:
        """Return the content type of a file."""
        return TYPES[name.rpartition(".")[2]]


def read_assets() -> Assets:
    """Return the static files of the package."""
    folder = files("bigfleet.dashboard") / "static"
    found = {
        item.name: item.read_bytes() for item in folder.iterdir() if item.name.rpartition(".")[2] in TYPES
    }
    bodies = dict(sorted(found.items()))
    return Assets(bodies, hashlib.sha256(b"\0".join(bodies.values())).hexdigest()[:12])


def read_contract() -> str:
    """Return the OpenAPI document of both sets of routes."""
    return (files("bigfleet.dashboard") / "openapi.json").read_text(encoding="utf-8")
