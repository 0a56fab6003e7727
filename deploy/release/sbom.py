"""The bill of materials: every package of the lock file with version, licence and hashes, as CycloneDX 1.6 JSON.

Why: users must know the contents without unpacking them; a package with an unknown licence is not released.
Must never: depend on the time or place of the build: the time is the commit's, the serial number comes from the content.
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import metadata
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

from deploy.release.errors import ReleaseError
from deploy.release.lock import Pinned

Licence = Callable[[str], str]
"""Takes the name of a package and returns its licence; empty if unknown."""

_CLASSIFIER: Final = "License :: OSI Approved :: "
# What packages write instead of an SPDX identifier. "BSD License" is not here: it does not say which one.
_SPELLINGS: Final = {
    **{
        name: name
        for name in ("Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0", "PSF-2.0")
    },
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}


def installed_licence(name: str) -> str:
    """Return the licence that an installed package declares; empty when it is not installed or does not say."""
    try:
        declared = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return ""
    (expression, words) = ((declared.get_all(key) or [""])[0] for key in ("License-Expression", "License"))
    expression = expression or _SPELLINGS.get(words.strip(), "")
    if expression:
        return expression
    classified = {
        _SPELLINGS.get(line.removeprefix(_CLASSIFIER), "")
        for line in declared.get_all("Classifier") or ()
        if line.startswith(_CLASSIFIER)
    }
    return "" if "" in classified else " OR ".join(sorted(classified))


def known_licence(package: Pinned, licence: Licence = installed_licence) -> str:
    """Return the licence of a package; refuses an unknown one."""
    declared = licence(package.name)
    if not declared:
        raise ReleaseError(
            f"{package.name} {package.version}: its licence is unknown; a release names every licence"
        )
    return declared


def timestamp(epoch_s: int) -> str:
    """Return a time in the form of both formats."""
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def licence_list(packages: list[Pinned], licence: Licence = installed_licence) -> str:
    """Return one line per package for people: name, version, licence, and where it is installed."""
    rows = [(one.name, one.version, known_licence(one, licence), one.marker) for one in packages]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]])
        for row in rows
    ]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def bill(packages: list[Pinned], *, version: str, epoch_s: int, licence: Licence = installed_licence) -> str:
    """Return the document; refuses a package with an unknown licence."""
    ours = f"pkg:pypi/bigfleet@{version}"
    document: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": timestamp(epoch_s),
            "component": {
                "type": "application",
                "bom-ref": ours,
                "name": "bigfleet",
                "version": version,
                "purl": ours,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            },
        },
        "components": [_component(package, licence) for package in packages],
        "dependencies": [{"ref": user, "dependsOn": wanted} for user, wanted in needs(packages, ours)],
    }
    text = json.dumps(document, sort_keys=True)
    document["serialNumber"] = f"urn:uuid:{uuid5(NAMESPACE_URL, text)}"
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def _component(package: Pinned, licence: Licence) -> dict[str, Any]:
    declared = known_licence(package, licence)
    is_id = " " not in declared
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": package.reference,
        "name": package.name,
        "version": package.version,
        "purl": package.reference,
        "licenses": [{"license": {"id": declared}} if is_id else {"expression": declared}],
        "hashes": [{"alg": "SHA-256", "content": digest} for digest in sorted(package.hashes)],
    }
    if package.marker:
        component["properties"] = [{"name": "bigfleet:marker", "value": package.marker}]
    return component


def needs(packages: list[Pinned], ours: str) -> list[tuple[str, list[str]]]:
    """Return the dependencies of BigFleet and of every package by package URL."""
    by_name: dict[str, list[str]] = {}
    for package in packages:
        by_name.setdefault(package.name, []).append(package.reference)
    wants: dict[str, set[str]] = {ours: set(), **{package.reference: set() for package in packages}}
    for package in packages:
        for name in package.wanted_by:
            for user in [ours] if name == "bigfleet" else by_name.get(name, ()):
                wants[user].add(package.reference)
    return [(reference, sorted(needed)) for reference, needed in sorted(wants.items())]
