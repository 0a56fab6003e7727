"""Maps an address to a page: reads the sources that the page shows, and renders it.

Must never: fail because one source is silent; the page names it in place of the missing part.
Rules: `dashboard#sources`, `dashboard#api`, `dashboard#page-contents`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from bigfleet.dashboard import metric_reader as names
from bigfleet.dashboard.api import compat, own
from bigfleet.dashboard.core.need_list import NeedList, NeedListQuery
from bigfleet.dashboard.core.summary import summarise
from bigfleet.dashboard.fleet_sources import FleetSources
from bigfleet.dashboard.html import Html, el
from bigfleet.dashboard.metric_reader import Trend
from bigfleet.dashboard.pages import (
    about,
    clusters,
    coordinator,
    cost,
    decisions,
    explain,
    machines,
    needs,
    overview,
    shards,
    what_if,
)
from bigfleet.dashboard.pages.frame import NAVIGATION, Frame, main_part, whole
from bigfleet.dashboard.pages.history import HistoryChart, HistoryView, chosen_range, view_of
from bigfleet.dashboard.parameters import ParameterError, Parameters
from bigfleet.dashboard.sources import SourceError, SourceProblem
from bigfleet.model.errors import BigFleetError

PAGES: Final = ("", *(path for path, _ in NAVIGATION if path), "explain")
_NEEDS: Final = ("shard", "cluster", "status", "reason", "q", "page")
_MACHINES: Final = ("shard", "state", "cluster", "type", "zone", "capacity", "q", "sort", "page")
_DECISIONS: Final = ("shard", "kind", "outcome", "cluster", "machine")
_WHAT_IF: Final = ("shard", "edits", "until", "create", "drain")
_ROWS_OF_CLUSTER: Final = 20
_SHARDS_OF_CLUSTER: Final = 4
T = TypeVar("T")


class PageNotFoundError(BigFleetError):
    """No page has this address, or what it shows does not exist."""


class PageQuery(dict[str, str]):
    """The parameters of a page, and whether only its main part is wanted."""

    def __init__(self, query: Mapping[str, str], *, part: bool) -> None:
        super().__init__(query)
        self.part = part


class Pages:
    """Every page of one dashboard."""

    def __init__(self, fleet: FleetSources, frame: Frame) -> None:
        self._fleet, self._frame = fleet, frame
        self._simple: Mapping[str, tuple[str, Callable[[Mapping[str, str]], Awaitable[Html]]]] = {
            "": ("Fleet", self._overview),
            "needs": ("Needs", self._needs),
            "machines": ("Machines", self._machines),
            "clusters": ("Clusters", self._clusters),
            "shards": ("Shards", self._shards),
            "capacity": ("Capacity", self._capacity),
            "topology": ("Topology", self._topology),
            "cost": ("Cost", self._cost),
            "decisions": ("Decisions", self._decisions),
            "explain": ("Explain", self._explain),
            "whatif": ("What-if", self._what_if),
            "about": ("About", self._about),
        }

    async def page(self, path: str, query: Mapping[str, str], *, part: bool) -> str:
        """Return a page, or only its main part for a page that is already open."""
        query = PageQuery(query, part=part)
        head, _, rest = path.partition("/")
        if not rest and path in self._simple:
            title, make = self._simple[path]
            content = await make(query)
        elif head == "shards" and rest:
            title, content = f"Shard {rest}", await self._shard(rest)
        elif head == "clusters" and rest:
            title, content = f"Cluster {rest}", await self._cluster(rest, query)
        else:
            raise PageNotFoundError(f"There is nothing at /{path[:200]}.")
        return str(content) if part else whole(self._frame, title, head, content)

    def missing(self, why: str, *, part: bool) -> str:
        """Return the page for an address that leads nowhere."""
        content = main_part(self._frame, "Not found", el("p", why, " The pages are listed above."))
        return str(content) if part else whole(self._frame, "Not found", "-", content)

    async def _overview(self, query: Mapping[str, str]) -> Html:
        metrics = self._fleet.metrics
        cycles: dict[str, tuple[float, float]] | None = None
        if metrics is not None:
            p50 = await _or_none(metrics.quantiles(names.CYCLE, ("pod",), 0.5)) or {}
            p99 = await _or_none(metrics.quantiles(names.CYCLE, ("pod",), 0.99)) or {}
            cycles = {pod[0]: (p50[pod], p99[pod]) for pod in p99 if pod in p50}
        events = self._fleet.events.newest(20)
        picture = self._fleet.picture
        view = await self._view(query, overview.CHARTS)
        return overview.overview(self._frame, summarise(picture), picture, view, cycles=cycles, events=events)

    async def _needs(self, query: Mapping[str, str]) -> Html:
        chosen = {**dict.fromkeys(_NEEDS, ""), **_known(query, _NEEDS)}
        chosen["shard"] = chosen["shard"] or self._first_shard()
        answer, problem = None, ""
        if chosen["shard"]:
            asked = needs.query_of(chosen)
            answer, problem = await _or_problem(self._need_list(chosen["shard"], asked))
        place = self._fleet.picture.shard(chosen["shard"])
        clusters = [row.cluster for row in place.seen.clusters] if place and place.seen else []
        # In a thread: two hundred rows of markup would delay other requests.
        return await asyncio.to_thread(
            needs.needs,
            self._frame,
            self._shard_names(),
            clusters,
            answer,
            chosen=chosen,
            problem=problem,
        )

    async def _machines(self, query: Mapping[str, str]) -> Html:
        chosen = {**dict.fromkeys(_MACHINES, ""), **_known(query, _MACHINES)}
        chosen["shard"] = chosen["shard"] or self._first_shard()
        answer, problem = None, ""
        if chosen["shard"]:
            answer, problem = await _or_problem(own.machines(self._fleet, _parameters(chosen)))
        place = self._fleet.picture.shard(chosen["shard"])
        return await asyncio.to_thread(
            machines.machines,
            self._frame,
            self._shard_names(),
            answer,
            chosen,
            problem=problem,
            seen=place.seen if place else None,
        )

    async def _clusters(self, _query: Mapping[str, str]) -> Html:
        reader = self._fleet.clusters
        reported = None
        if reader is not None:
            rows = await _or_none(reader.clusters())
            reported = {row["id"]: row for row in rows or ()}
        return clusters.clusters(self._frame, self._fleet.picture, reported)

    async def _cluster(self, name: str, query: Mapping[str, str]) -> Html:
        reader, picture = self._fleet.clusters, self._fleet.picture
        reported, problem, known = None, "", picture.may_know(name)
        if reader is not None:
            try:
                reported, known = await reader.cluster(name), True
            except SourceError as error:
                problem, known = str(error), known or error.trouble is not SourceProblem.NOT_FOUND
        if not known:
            raise PageNotFoundError(f"No shard has seen a cluster {name[:200]}.")
        view = await self._view(query, clusters.charts_of(name))
        lists = await self._cluster_lists(name)
        return clusters.cluster(self._frame, name, picture, reported, problem=problem, view=view, lists=lists)

    async def _cluster_lists(self, name: str) -> Mapping[str, clusters.ClusterLists]:
        shards = [
            place.shard_id
            for place in self._fleet.picture.shards
            if place.seen and any(row.cluster == name for row in place.seen.clusters)
        ][:_SHARDS_OF_CLUSTER]
        found = await asyncio.gather(*(self._lists_at(shard, name) for shard in shards))
        return dict(zip(shards, found, strict=True))

    async def _lists_at(self, shard: str, name: str) -> clusters.ClusterLists:
        asked = NeedListQuery(cluster=name, size=_ROWS_OF_CLUSTER)
        found, problem = await _or_problem(self._need_list(shard, asked))
        given = _parameters({"cluster": name, "sort": "-price"})
        query = own.machine_query(given, page_size=_ROWS_OF_CLUSTER)
        reader = self._fleet.watcher.reader(shard)
        listed = None if reader is None else await _or_none(reader.machines(query))
        return clusters.ClusterLists(found, listed, problem)

    async def _shards(self, _query: Mapping[str, str]) -> Html:
        p99: Mapping[tuple[str, ...], float] | None = None
        if self._fleet.metrics is not None:
            p99 = await _or_none(self._fleet.metrics.quantiles(names.CYCLE, ("pod",), 0.99))
        by_pod = {pod: value for (pod,), value in (p99 or {}).items()}
        return shards.shards(self._frame, self._fleet.picture, by_pod)

    async def _shard(self, name: str) -> Html:
        place = self._fleet.picture.shard(name)
        if place is None:
            raise PageNotFoundError(f"No shard is called {name}.")
        reported: Mapping[str, Any] | None = None
        trends: Trend | None = None
        metrics = self._fleet.metrics
        if metrics is not None:
            reported = await _or_none(compat.shard(self._fleet, _parameters(pod=name)))
            trends = await _or_none(metrics.quantile_trend(names.CYCLE, (), 0.99, 3600.0, 60.0, pod=name))
        return shards.shard(self._frame, place, self._fleet.picture.at, reported, trends)

    async def _capacity(self, _query: Mapping[str, str]) -> Html:
        reader = self._fleet.clusters
        hints = None
        if reader is not None:
            hints = await _or_none(reader.available_capacity())
        return coordinator.capacity(self._frame, self._fleet.picture, hints)

    async def _topology(self, _query: Mapping[str, str]) -> Html:
        reported = await _or_none(compat.topology(self._fleet, _parameters()))
        return coordinator.topology(self._frame, self._fleet.picture, reported)

    async def _cost(self, query: Mapping[str, str]) -> Html:
        reported = None
        if self._fleet.metrics is not None:
            reported = await _or_none(compat.finops_snapshot(self._fleet, _parameters()))
        picture, view = self._fleet.picture, await self._view(query, cost.CHARTS)
        return cost.cost(self._frame, picture, summarise(picture), reported, view)

    async def _decisions(self, query: Mapping[str, str]) -> Html:
        chosen = {**dict.fromkeys(_DECISIONS, ""), **_known(query, _DECISIONS)}
        answer, problem = await _or_problem(
            own.decisions(
                self._fleet, _parameters({name: chosen[name] for name in chosen if name != "outcome"})
            )
        )
        return decisions.decisions(self._frame, self._shard_names(), answer, chosen, problem)

    async def _explain(self, query: Mapping[str, str]) -> Html:
        if query.get("machine"):
            given = _parameters({"shard": query.get("shard", ""), "id": query["machine"]})
            answer, problem = await _or_problem(_found(own.explain_machine(self._fleet, given)))
            if answer is not None:
                return explain.machine_page(self._frame, answer, self._fleet.now())
            return explain.start_page(self._frame, problem)
        if query.get("fingerprint"):
            given = _parameters(_known(query, ("shard", "cluster", "fingerprint", "group")))
            answer, problem = await _or_problem(_found(own.explain_need(self._fleet, given)))
            if answer is not None:
                return explain.need_page(self._frame, answer)
            return explain.start_page(self._frame, problem)
        return explain.start_page(self._frame)

    async def _what_if(self, query: Mapping[str, str]) -> Html:
        asked = what_if.WhatIfForm(**_known(query, _WHAT_IF))
        return what_if.what_if(self._frame, self._shard_names(), asked, self._fleet.picture)

    async def _about(self, _query: Mapping[str, str]) -> Html:
        fleet = self._fleet
        return about.about(
            self._frame,
            fleet.wiring,
            fleet.picture,
            fleet.events.newest(100),
            fleet.scrape_problems(),
            history=fleet.history,
        )

    async def _need_list(self, shard: str, query: NeedListQuery) -> NeedList:
        return await self._fleet.shard(shard).need_list(query)

    async def _view(self, query: Mapping[str, str], charts: Sequence[HistoryChart]) -> HistoryView:
        # The refresh of an open page replaces no chart, since their script asks for numbers itself.
        drawn = () if isinstance(query, PageQuery) and query.part else charts
        return await view_of(self._fleet.history, chosen_range(query), drawn, self._fleet.now())

    def _shard_names(self) -> list[str]:
        return [place.shard_id for place in self._fleet.picture.shards]

    def _first_shard(self) -> str:
        return next(iter(self._shard_names()), "")


def _known(query: Mapping[str, str], wanted: tuple[str, ...]) -> dict[str, str]:
    """The parameters that a page knows; it ignores others, so that an old shared address still works."""
    return {name: value for name, value in query.items() if name in wanted}


def _parameters(query: Mapping[str, str] | None = None, **path: str) -> Parameters:
    """Parameters of a route from the values of a page, without empty ones."""
    given = {name: value for name, value in (query or {}).items() if value}
    return Parameters(given, path, frozenset(given))


async def _found(answer: Awaitable[T]) -> T:
    """Raise `PageNotFoundError` for what a shard does not know, so that the page's status says so too."""
    try:
        return await answer
    except SourceError as error:
        if error.trouble is SourceProblem.NOT_FOUND:
            raise PageNotFoundError(str(error)) from error
        raise


async def _or_none(answer: Awaitable[T]) -> T | None:
    try:
        return await answer
    except SourceError:
        return None


async def _or_problem(answer: Awaitable[T]) -> tuple[T | None, str]:
    try:
        return await answer, ""
    except (SourceError, ParameterError) as error:
        return None, str(error)
