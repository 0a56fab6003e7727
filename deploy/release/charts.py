"""Chart packages in Helm's layout, without Helm, the same bytes every time.

Why: `helm package` writes the current time into the archive, so two packages of one commit would differ.
Must never: use another version: version and appVersion of every chart are those of the package (ADR-0175).

A package is `<chart>-<version>.tgz` with `<chart>/Chart.yaml` first. A dependency on a neighbour (`file://../x`) is inside, unpacked,
as `helm package` does it, so that it renders without a network.
"""

from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final

import yaml

from deploy.release.archive import packed
from deploy.release.errors import ReleaseError

_NEIGHBOUR: Final = "file://../"
_IGNORE: Final = ".helmignore"


def chart_names(charts: Path) -> list[str]:
    """Return the charts of a folder."""
    return sorted(path.parent.name for path in charts.glob("*/Chart.yaml"))


def package(charts: Path, name: str, *, version: str, epoch_s: int) -> tuple[str, bytes]:
    """Return the file name and the bytes of one chart's package."""
    entries = _entries(charts, name, version, seen=())
    return f"{name}-{version}.tgz", packed(entries, epoch_s)


def _entries(charts: Path, name: str, version: str, seen: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a chart and of the neighbours it depends on, Chart.yaml first."""
    if name in seen:
        raise ReleaseError(f"charts: {' needs '.join((*seen, name))}, allowed is no circle")
    folder = charts / name
    metadata = _chart(folder / "Chart.yaml", version)
    yield (
        f"{name}/Chart.yaml",
        yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True, width=120).encode(),
    )
    inside = {
        dependency["name"] for dependency in metadata.get("dependencies", ()) if _is_neighbour(dependency)
    }
    ignored = _ignored(folder)
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        vendored = (
            len(relative.parts) > 1 and relative.parts[0] == "charts" and _is_of(relative.parts[1], inside)
        )
        is_left_out = relative.as_posix() in {"Chart.yaml", _IGNORE} or vendored
        if path.is_file() and not is_left_out and not any(_matches(relative, rule) for rule in ignored):
            yield f"{name}/{relative.as_posix()}", path.read_bytes()
    for dependency in sorted(inside):
        if not (charts / dependency / "Chart.yaml").is_file():
            raise ReleaseError(f"charts/{name}/Chart.yaml: dependency {dependency} is not in {charts.name}/")
        for path_, content in _entries(charts, dependency, version, (*seen, name)):
            yield f"{name}/charts/{path_}", content


def _chart(path: Path, version: str) -> dict[str, Any]:
    # Any: YAML
    metadata: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    metadata["version"] = metadata["appVersion"] = version
    for dependency in metadata.get("dependencies", ()):
        if _is_neighbour(dependency):
            dependency["version"] = version
    return metadata


def _is_neighbour(dependency: dict[str, Any]) -> bool:
    return str(dependency.get("repository", "")).startswith(_NEIGHBOUR)


def _is_of(entry: str, names: set[str]) -> bool:
    """Return whether an entry of charts/ is a copy of a neighbour, unpacked or packed, which is created again."""
    return any(entry == name or (entry.startswith(f"{name}-") and entry.endswith(".tgz")) for name in names)


def _ignored(folder: Path) -> list[str]:
    path = folder / _IGNORE
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def _matches(relative: Path, rule: str) -> bool:
    name = rule.rstrip("/")
    parts = relative.parts[:-1] if rule.endswith("/") else relative.parts
    return fnmatch(relative.as_posix(), name) or any(fnmatch(part, name) for part in parts)
