"""What goes along with a release: rendered manifests, rules, boards, figures, the values file of the image, certificates of providers."""

import io
import json
import os
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from bigfleet.kube.crds.definitions import DEFINITIONS
from deploy.release.artefacts import custom_resources
from deploy.release.bundles import evidence_bundle, install_bundle
from deploy.release.conformance import certify
from deploy.release.errors import ReleaseError
from deploy.release.manifests import FOLDER, MANIFESTS, rendered, version_of_manifest
from deploy.release.pinned_image import values_file
from tests.charts.rendering import helm_binary

ROOT = Path(__file__).resolve().parents[2]
DIGEST = "sha256:" + "ab" * 32


def files_of(archive: tuple[str, bytes]) -> dict[str, bytes]:
    name, content = archive
    with tarfile.open(fileobj=io.BytesIO(content)) as opened:
        found = {}
        for member in opened.getmembers():
            assert (member.mode, member.uid, member.gid, member.mtime) == (0o644, 0, 0, 7)
            inside = opened.extractfile(member)
            assert inside is not None
            folder, _, path = member.name.partition("/")
            assert f"{folder}.tgz" == name
            found[path] = inside.read()
    return found


@pytest.mark.rule("packaging#release")
def test_the_kept_manifests_are_what_helm_makes_of_the_packed_charts() -> None:
    for name, text in rendered(ROOT, helm_binary()).items():
        kept = (ROOT / FOLDER / name).read_text(encoding="utf-8")
        assert kept.splitlines() == text.splitlines(), f"{name}: run make manifests"


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda one: one.name)
def test_a_manifest_holds_no_secret_and_says_what_to_change(manifest: object) -> None:
    name = manifest.name  # type: ignore[attr-defined]  # one of the rows
    text = (ROOT / FOLDER / name).read_text(encoding="utf-8")
    objects = [thing for thing in yaml.safe_load_all(text) if thing]
    assert not [thing for thing in objects if thing["kind"] == "Secret"], "two renderings would differ"
    assert objects[0]["kind"] == "Namespace"
    assert version_of_manifest(text)
    if name == "cluster.yaml":
        assert text.count("CHANGE-ME") == 3  # the sentence, the id, the address
        kinds = {
            thing["spec"]["names"]["kind"] for thing in objects if thing["kind"] == "CustomResourceDefinition"
        }
        assert kinds == {definition.kind for definition in DEFINITIONS}
    else:
        assert "--dry-run=true" in text


def test_the_archive_has_manifests_definitions_rules_and_boards() -> None:
    files = files_of(install_bundle(ROOT, version="1.2.3", epoch_s=7, custom_resources=custom_resources()))
    boards = {f"boards/{path.name}" for path in (ROOT / "deploy" / "grafana").glob("*.json")}
    assert files.keys() == boards | {
        *(
            "README.txt",
            "LICENSE",
            "install.yaml",
            "cluster.yaml",
            "crds/bigfleet-crds.yaml",
            "rules/bigfleet.yaml",
        )
    }
    assert len(boards) == 5
    for name in files.keys() - boards - {"LICENSE", "README.txt"}:
        assert name.split("/")[0].encode() in files["README.txt"]


def test_what_was_measured_goes_along() -> None:
    files = files_of(evidence_bundle(ROOT, version="1.2.3", epoch_s=7))
    assert {"index.md", "bench.json", "providers.md"} <= files.keys()
    assert json.loads(files["bench.json"])["commit"]


@pytest.mark.rule("packaging#release")
def test_the_values_file_pins_the_image_for_every_chart() -> None:
    told = yaml.safe_load(values_file("registry.example.org:5000/team/bigfleet", DIGEST, "1.2.3"))
    assert told == {
        "image": {
            "registry": "registry.example.org:5000",
            "repository": "team/bigfleet",
            "tag": "v1.2.3",
            "digest": DIGEST,
        }
    }
    for chart in ("bigfleet", "bigfleet-operator", "bigfleet-unschedulable-pod-controller"):
        values = yaml.safe_load((ROOT / "charts" / chart / "values.yaml").read_text(encoding="utf-8"))
        assert told["image"].keys() <= values["image"].keys()


@pytest.mark.parametrize(
    ("image", "digest", "words"),
    [
        ("bigfleet", DIGEST, "allowed is registry/name"),
        ("ghcr.io/Team/bigfleet", DIGEST, "small letters"),
        ("ghcr.io/team/bigfleet:v1", DIGEST, "without a tag"),
        ("ghcr.io/team/bigfleet", "v1.2.3", "digest: found 'v1.2.3'"),
    ],
)
def test_what_pins_nothing_is_refused(image: str, digest: str, words: str) -> None:
    with pytest.raises(ReleaseError, match=words):
        values_file(image, digest, "1.2.3")


@pytest.mark.parametrize("certified", [True, False])
def test_a_report_is_kept_only_of_a_certified_provider(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, certified: bool
) -> None:
    """The kit itself is played here; `make conformance-self` runs it for some minutes."""
    programs = tmp_path / "bin"
    programs.mkdir()
    kit = programs / "bigfleet"
    kit.write_text(
        f"#!{sys.executable}\nimport sys\nassert sys.argv[1] == 'conformance'\n"
        "out = sys.argv[sys.argv.index('--out') + 1]\nopen(out + '/report.json', 'w').write('{}')\n"
        f"print('the verdict')\nsys.exit({0 if certified else 1})\n"
    )
    kit.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(programs / "python"))
    if certified:
        assert [path.name for path in certify(tmp_path / "out", "1.2.3")] == [
            "conformance-fake-1.2.3.json",
            "conformance-hook-1.2.3.json",
        ]
    else:
        with pytest.raises(
            ReleaseError, match=r"conformance-fake-1\.2\.3: not certified as core,.*: the verdict"
        ):
            certify(tmp_path / "out", "1.2.3")
        assert os.listdir(tmp_path / "out") == []
