"""The bill of materials as SPDX 2.3 JSON, for tools that read only that.

Must never: state more than the lock file does; unknown values are NOASSERTION, as the format requires.
"""

import json
import re
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

from deploy.release.lock import Pinned
from deploy.release.sbom import Licence, installed_licence, known_licence, needs, timestamp

_UNKNOWN: Final = "NOASSERTION"
_OURS: Final = "SPDXRef-bigfleet"


def document(
    packages: list[Pinned], *, version: str, epoch_s: int, licence: Licence = installed_licence
) -> str:
    """Return the document; refuses a package with an unknown licence."""
    ours = f"pkg:pypi/bigfleet@{version}"
    ids = {ours: _OURS, **{package.reference: _id(package) for package in packages}}
    fields: dict[str, Any] = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"bigfleet-{version}",
        "creationInfo": {"created": timestamp(epoch_s), "creators": [f"Tool: bigfleet-release-{version}"]},
        "packages": [
            _package(_OURS, "bigfleet", version, "Apache-2.0", ours),
            *(
                _package(_id(one), one.name, one.version, known_licence(one, licence), one.reference)
                for one in packages
            ),
        ],
        "relationships": [
            _relation("SPDXRef-DOCUMENT", "DESCRIBES", _OURS),
            *(
                _relation(ids[user], "DEPENDS_ON", ids[used])
                for user, wanted in needs(packages, ours)
                for used in wanted
            ),
        ],
    }
    number = uuid5(NAMESPACE_URL, json.dumps(fields, sort_keys=True))
    fields["documentNamespace"] = f"https://spdx.org/spdxdocs/bigfleet-{version}-{number}"
    return json.dumps(fields, indent=2, sort_keys=True) + "\n"


def _id(package: Pinned) -> str:
    # One name may be pinned in two versions, for two kinds of machine.
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", f"{package.name}-{package.version}")


def _package(spdx_id: str, name: str, version: str, licence: str, reference: str) -> dict[str, Any]:
    return {
        "SPDXID": spdx_id,
        "name": name,
        "versionInfo": version,
        "downloadLocation": _UNKNOWN,
        "filesAnalyzed": False,
        "licenseConcluded": _UNKNOWN,
        "licenseDeclared": licence,
        "copyrightText": _UNKNOWN,
        "externalRefs": [
            {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": reference}
        ],
    }


def _relation(of: str, kind: str, to: str) -> dict[str, str]:
    return {"spdxElementId": of, "relationshipType": kind, "relatedSpdxElement": to}
