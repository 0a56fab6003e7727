"""The bill of materials as SPDX says what the other form says, and the list for people has the same rows."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from deploy.release.errors import ReleaseError
from deploy.release.lock import Pinned, read_lock
from deploy.release.sbom import bill, licence_list
from deploy.release.spdx import document

ROOT = Path(__file__).resolve().parents[2]
LOCK = read_lock((ROOT / "requirements.lock").read_text(encoding="utf-8"))


def told() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(document(LOCK, version="1.2.3", epoch_s=0))
    return found


@pytest.mark.rule("packaging#sbom")
def test_both_forms_list_the_same_packages_with_the_same_licences() -> None:
    other = json.loads(bill(LOCK, version="1.2.3", epoch_s=0))
    theirs = {
        one["purl"]: one["licenses"][0].get("expression") or one["licenses"][0]["license"]["id"]
        for one in [*other["components"], other["metadata"]["component"]]
    }
    ours = {one["externalRefs"][0]["referenceLocator"]: one["licenseDeclared"] for one in told()["packages"]}
    assert ours == theirs


def test_both_forms_say_alike_who_needs_what() -> None:
    names = {one["SPDXID"]: one["externalRefs"][0]["referenceLocator"] for one in told()["packages"]}
    ours = {
        (names[row["spdxElementId"]], names[row["relatedSpdxElement"]])
        for row in told()["relationships"]
        if row["relationshipType"] == "DEPENDS_ON"
    }
    other = json.loads(bill(LOCK, version="1.2.3", epoch_s=0))
    assert ours == {(row["ref"], used) for row in other["dependencies"] for used in row["dependsOn"]}
    assert len(ours) > len(LOCK) - 1


def test_it_has_what_the_format_demands() -> None:
    found = told()
    assert (found["spdxVersion"], found["dataLicense"], found["SPDXID"]) == (
        "SPDX-2.3",
        "CC0-1.0",
        "SPDXRef-DOCUMENT",
    )
    assert found["creationInfo"]["created"] == "1970-01-01T00:00:00Z"
    assert found["documentNamespace"].startswith("https://")
    ids = [one["SPDXID"] for one in found["packages"]]
    assert len(ids) == len(set(ids))
    assert all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", one) for one in ids)
    (described,) = (row for row in found["relationships"] if row["relationshipType"] == "DESCRIBES")
    assert described["relatedSpdxElement"] == "SPDXRef-bigfleet"


def test_the_same_lock_gives_the_same_bytes_and_another_one_another_name() -> None:
    assert document(LOCK, version="1.2.3", epoch_s=0) == document(LOCK, version="1.2.3", epoch_s=0)
    other = json.loads(document(LOCK[1:], version="1.2.3", epoch_s=0))
    assert other["documentNamespace"] != told()["documentNamespace"]


def test_an_unknown_licence_is_refused_in_both() -> None:
    mystery = [Pinned("mystery", "1.0", "", ["0" * 64])]
    with pytest.raises(ReleaseError, match=r"mystery 1\.0: its licence is unknown"):
        document(mystery, version="1", epoch_s=0)
    with pytest.raises(ReleaseError, match=r"mystery 1\.0: its licence is unknown"):
        licence_list(mystery)


def test_the_list_for_people_has_a_line_per_package() -> None:
    lines = licence_list(LOCK).splitlines()
    assert [line.split()[:2] for line in lines] == [[one.name, one.version] for one in LOCK]
    assert all(len(line.split()) > 2 for line in lines)
