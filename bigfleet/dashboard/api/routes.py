"""The table of routes: path, function, parameters. The server mounts it; a test compares the OpenAPI file with it.

Must never: hold a route that changes anything.
Rules: `dashboard#api`.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bigfleet.dashboard.api import compat, own
from bigfleet.dashboard.api.history import history
from bigfleet.dashboard.fleet_sources import FleetSources
from bigfleet.dashboard.parameters import Parameters

Handler = Callable[[FleetSources, Parameters], Awaitable[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class Route:
    """One GET route: its path under the prefix, its handler, the parameters it accepts."""

    path: str
    handler: Handler
    parameters: frozenset[str] = frozenset()


def _route(path: str, handler: Handler, parameters: str = "") -> Route:
    return Route(path, handler, frozenset(parameters.split()))


COMPATIBLE: Final = (
    _route("/health", compat.health),
    _route("/config", compat.config),
    _route("/fleet/overview", compat.overview),
    _route("/fleet/actions", compat.actions, "duration step"),
    _route("/shards", compat.shards),
    _route("/shards/{pod}", compat.shard),
    _route("/shards/{pod}/trends", compat.shard_trends, "duration step"),
    _route("/clusters", compat.clusters),
    _route("/clusters/{id}", compat.cluster),
    _route("/available-capacity", compat.available_capacity),
    _route("/topology", compat.topology),
    _route("/shard-reports", compat.shard_reports, "shard"),
    _route("/needs", compat.needs, "shard cluster limit"),
    _route("/finops/snapshot", compat.finops_snapshot),
)
"""Under `/api/v1` and `/api`."""

OWN: Final = (
    _route("/status", own.status),
    _route("/shards", own.shards),
    _route("/needs", own.needs, "shard cluster status reason q page"),
    _route("/machines", own.machines, "shard state cluster type zone capacity q sort page"),
    _route("/machines/{shard}/{id}", own.machine),
    _route("/explain/need", own.explain_need, "shard cluster fingerprint group"),
    _route("/explain/machine", own.explain_machine, "shard id"),
    _route("/decisions", own.decisions, "shard since kind machine cluster"),
    _route("/events", own.events, "since"),
    _route("/history", history, "family range step cluster"),
)
"""Under `/api/v1/x`; the server adds the stream, the snapshot, exports and what-if, which do not answer with one JSON object."""
