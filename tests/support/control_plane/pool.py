"""The clusters of one test run: a few shared by all tests, and those that one test has for itself.

Why: a cluster takes seconds to start and 0.4 GiB; most tests can share one if each keeps to a namespace of its own.
Must never: hand out a shared cluster to a test that wants to break it; such a test asks for one of its own.
"""

import re
from itertools import count
from pathlib import Path
from typing import Final

from tests.support.control_plane.cluster import Cluster, Prepare, start_clusters
from tests.support.control_plane.options import ORDINARY, ClusterOptions

_LONGEST_NAME: Final = 50


class ClusterPool:
    """Starts clusters when they are first wanted, each prepared by the caller's hand, and ends all of them."""

    def __init__(self, binary: Path, prepare: Prepare) -> None:
        self._binary, self._prepare = binary, prepare
        self._shared: list[Cluster] = []
        self._own: list[Cluster] = []
        self._numbers = count(1)

    @property
    def running(self) -> tuple[Cluster, ...]:
        """Every cluster that runs now."""
        return (*self._shared, *self._own)

    def shared(self, number: int) -> list[Cluster]:
        """Return so many ordinary clusters; those not yet there start at the same time."""
        missing = max(0, number - len(self._shared))
        self._shared += start_clusters(self._binary, [ORDINARY] * missing, self._prepare)
        return self._shared[:number]

    def own(self, options: ClusterOptions = ORDINARY) -> Cluster:
        """Return a new cluster, to be broken at will and ended by `end_own`."""
        (cluster,) = start_clusters(self._binary, [options], self._prepare)
        self._own.append(cluster)
        return cluster

    def end_own(self) -> None:
        """End the clusters that one test had for itself."""
        while self._own:
            self._own.pop().stop()

    def end(self) -> None:
        """End all clusters."""
        self.end_own()
        while self._shared:
            self._shared.pop().stop()

    def new_name(self, hint: str) -> str:
        """Return a name that no other test of this run has, fit for a namespace."""
        words = re.sub(r"[^a-z0-9]+", "-", hint.lower().removeprefix("test_"))
        return f"t{next(self._numbers)}-{words}"[:_LONGEST_NAME].strip("-")
