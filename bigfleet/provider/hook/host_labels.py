"""Labels that create hooks reported for their hosts, kept over restarts.

Why: rack or serial number of a host may be known only once it exists. The kit keeps the sizes that a host reports, this
module its labels.
Rules: `providers#hook-protocol`.
"""

import json
import posixpath
from collections.abc import Mapping
from typing import Final

from bigfleet.aio.disk import Disk, atomic_write
from bigfleet.model.errors import BigFleetError
from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.machine import Shape

FILE: Final = "labels.json"


class HostLabelsError(BigFleetError):
    """The file of labels cannot be read."""


class HostLabels:
    """Labels by machine; only in memory without a directory."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk, self._directory = disk, directory
        self._path = posixpath.join(directory, FILE) if directory else ""
        self._labels: dict[str, FrozenMap[str]] = {}

    def open(self) -> None:
        """Read the labels that an earlier process stored."""
        if not self._path or not self._disk.exists(self._path):
            return
        try:
            found = json.loads(self._disk.read(self._path))
            self._labels = {str(name): FrozenMap(labels) for name, labels in found.items()}
        except (ValueError, AttributeError, TypeError) as error:
            raise HostLabelsError(
                f"{self._path}: not readable; remove it to go on without these labels"
            ) from error

    def learn(self, machine_id: str, labels: Mapping[str, str]) -> bool:
        """Set the labels of a new host, possibly none; False if nothing changes."""
        if self._labels.get(machine_id, FrozenMap()) == FrozenMap(labels):
            return False
        if labels:
            self._labels[machine_id] = FrozenMap(labels)
        else:
            del self._labels[machine_id]
        if self._path:
            plain = {name: dict(kept) for name, kept in sorted(self._labels.items())}
            atomic_write(self._disk, self._path, json.dumps(plain, indent=1).encode())
        return True

    def forget(self, machine_id: str) -> bool:
        """Drop the labels of a deleted host; False if there were none."""
        return self.learn(machine_id, {})

    def applied(self, machine_id: str, shape: Shape) -> Shape:
        """Return the shape with the host's labels, which replace those of the inventory."""
        labels = self._labels.get(machine_id)
        return shape if labels is None else shape.with_labels(shape.labels.merged(labels))
