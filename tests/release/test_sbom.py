"""The bill of materials lists every package of the lock file with version, licence and hashes (`packaging#sbom`)."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from deploy.release.errors import ReleaseError
from deploy.release.lock import Pinned, read_lock
from deploy.release.sbom import bill, installed_licence

ROOT = Path(__file__).resolve().parents[2]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")


def document() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(bill(read_lock(LOCK), version="1.2.3", epoch_s=0))
    return found


@pytest.mark.rule("packaging#sbom")
def test_every_package_of_the_lock_is_listed_with_version_licence_and_hashes() -> None:
    pinned = re.findall(r"^([a-z0-9-]+)==(\S+)", LOCK, re.MULTILINE)
    components = document()["components"]
    assert [(one["name"], one["version"]) for one in components] == pinned
    hashes = [entry["content"] for one in components for entry in one["hashes"]]
    assert sorted(hashes) == sorted(re.findall(r"sha256:([0-9a-f]{64})", LOCK))
    for one in components:
        (licence,) = one["licenses"]
        assert licence.get("expression") or licence["license"]["id"], one["name"]
        assert one["purl"] == f"pkg:pypi/{one['name']}@{one['version']}"


def test_it_says_who_needs_what() -> None:
    told = document()
    needs = {row["ref"]: row["dependsOn"] for row in told["dependencies"]}
    assert any(ref.startswith("pkg:pypi/grpcio@") for ref in needs["pkg:pypi/bigfleet@1.2.3"])
    (settings,) = (ref for ref in needs if ref.startswith("pkg:pypi/pydantic-settings@"))
    assert any(ref.startswith("pkg:pypi/pydantic@") for ref in needs[settings])
    assert set(needs) == {"pkg:pypi/bigfleet@1.2.3", *(one["bom-ref"] for one in told["components"])}


def test_the_same_lock_gives_the_same_bytes_and_another_one_another_number() -> None:
    packages = read_lock(LOCK)
    first = bill(packages, version="1.2.3", epoch_s=0)
    assert first == bill(packages, version="1.2.3", epoch_s=0)
    other = json.loads(bill(packages[1:], version="1.2.3", epoch_s=0))
    assert other["serialNumber"] != json.loads(first)["serialNumber"]
    assert json.loads(first)["metadata"]["timestamp"] == "1970-01-01T00:00:00Z"


def test_an_unknown_licence_is_refused_by_name() -> None:
    with pytest.raises(ReleaseError, match=r"mystery 1\.0: its licence is unknown"):
        bill([Pinned("mystery", "1.0", "", ["0" * 64])], version="1", epoch_s=0)
    assert installed_licence("mystery") == ""
    assert installed_licence("protobuf") == "BSD-3-Clause"


@pytest.mark.parametrize(
    ("text", "words"),
    [("left==1.0\n", "neither a package nor its hash"), ("left==1.0 \\\n", "has no hash")],
)
def test_a_lock_that_is_not_understood_is_refused(text: str, words: str) -> None:
    with pytest.raises(ReleaseError, match=words):
        read_lock(text)
