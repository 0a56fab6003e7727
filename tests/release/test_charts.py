"""Chart packages: Helm's layout, the one version, neighbours inside, the same bytes every time."""

import gzip
import io
import os
import tarfile
from pathlib import Path

import pytest
import yaml

from bigfleet.kube.crds.render import chart_version
from deploy.release.charts import chart_names, package
from deploy.release.errors import ReleaseError

ROOT = Path(__file__).resolve().parents[2]


def files_of(content: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(content))) as archive:
        found = {}
        for member in archive.getmembers():
            assert (member.mode, member.uid, member.gid, member.mtime) == (0o644, 0, 0, 5)
            opened = archive.extractfile(member)
            assert opened is not None
            found[member.name] = opened.read()
        return found


def write(folder: Path, name: str, chart: str, **files: str) -> None:
    for path, text in {"Chart.yaml": chart, **files}.items():
        (folder / name / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / name / path).write_text(text)


@pytest.mark.parametrize("name", chart_names(ROOT / "charts"))
def test_every_chart_of_the_repository_is_packed_whole_under_the_one_version(name: str) -> None:
    file, content = package(ROOT / "charts", name, version=chart_version(), epoch_s=5)
    assert file == f"{name}-{chart_version()}.tgz"
    files = files_of(content)
    assert next(iter(files)) == f"{name}/Chart.yaml"
    told = yaml.safe_load(files[f"{name}/Chart.yaml"])
    assert (told["name"], told["version"], told["appVersion"]) == (name, chart_version(), chart_version())
    for path in (ROOT / "charts" / name / "templates").rglob("*.yaml"):
        inside = f"{name}/{path.relative_to(ROOT / 'charts' / name).as_posix()}"
        assert files[inside] == path.read_bytes()


def test_a_neighbour_lies_inside_in_the_same_version_and_a_stale_copy_of_it_does_not(tmp_path: Path) -> None:
    write(tmp_path, "crds", "{apiVersion: v2, name: crds, version: 0.0.1}", **{"templates/a.yaml": "a: 1\n"})
    write(
        tmp_path,
        "app",
        "apiVersion: v2\nname: app\nversion: 0.0.1\n"
        "dependencies: [{name: crds, version: 0.0.1, repository: 'file://../crds', condition: crds.install}]\n",
        **{
            "charts/crds-0.0.1.tgz": "stale",
            "charts/other/Chart.yaml": "kept: 1\n",
            ".helmignore": "# notes\n*.bak\nprivate/\n",
            "values.yaml.bak": "no",
            "private/x": "no",
            "templates/b.yaml": "b: 1\n",
        },
    )
    files = files_of(package(tmp_path, "app", version="1.2.3", epoch_s=5)[1])
    assert list(files) == [
        "app/Chart.yaml",
        "app/charts/other/Chart.yaml",
        "app/templates/b.yaml",
        "app/charts/crds/Chart.yaml",
        "app/charts/crds/templates/a.yaml",
    ]
    told = yaml.safe_load(files["app/Chart.yaml"])
    assert told["dependencies"][0] == {
        "name": "crds",
        "version": "1.2.3",
        "repository": "file://../crds",
        "condition": "crds.install",
    }
    assert yaml.safe_load(files["app/charts/crds/Chart.yaml"])["version"] == "1.2.3"


def test_neither_time_nor_mode_of_a_file_shows_in_the_package(tmp_path: Path) -> None:
    write(tmp_path, "crds", "{apiVersion: v2, name: crds, version: 0.0.1}", **{"values.yaml": "{}\n"})
    before = package(tmp_path, "crds", version="1.2.3", epoch_s=5)
    (tmp_path / "crds" / "values.yaml").chmod(0o600)
    os.utime(tmp_path / "crds" / "values.yaml", (1, 1))
    assert package(tmp_path, "crds", version="1.2.3", epoch_s=5) == before


def test_a_neighbour_that_is_not_there_and_a_circle_are_refused(tmp_path: Path) -> None:
    chart = "{{apiVersion: v2, name: {0}, version: 0.0.1, dependencies: [{{name: {1}, repository: 'file://../{1}'}}]}}"
    write(tmp_path, "one", chart.format("one", "two"))
    with pytest.raises(ReleaseError, match="dependency two is not in"):
        package(tmp_path, "one", version="1.2.3", epoch_s=5)
    write(tmp_path, "two", chart.format("two", "one"))
    with pytest.raises(ReleaseError, match="one needs two needs one, allowed is no circle"):
        package(tmp_path, "one", version="1.2.3", epoch_s=5)
