"""Keeps the surplus of the cluster: feeds pods, nodes and machines on their way to the loop for fragments, and hands on what it asks for.

Why: a change costs the same whatever the number of pods; the cluster is looked at after changes, at most once a second, and
whenever the loop said it must be.
Must never: look while pods are not known or the shard is away, hold the event loop for long, or forget the surplus because the process
began anew.
Rules: `operator#fragments`, `operator#fragments-start`, `operator#loop-discipline`; ADR-0269, ADR-0270.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NoReturn, Protocol
from weakref import WeakValueDictionary

import structlog

from bigfleet.aio.clock import Clock, monotonic_s, timeout
from bigfleet.kube.resources import ObjectKey
from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.quantity import parse_quantity
from bigfleet.model.resources import ZERO, Resources
from bigfleet.model.times import NANOSECONDS
from bigfleet.obs.metrics import Metrics
from bigfleet.operator.caches import OperatorCaches
from bigfleet.operator.core.contribution import Contribution, DemandRow
from bigfleet.operator.core.fragment_terms import (
    Coming,
    FragmentRules,
    FragmentsAnswer,
    RowDemand,
    Unplaced,
    Why,
)
from bigfleet.operator.core.fragments import Fragments
from bigfleet.operator.core.pod_fit import suits
from bigfleet.operator.core.pods import ClusterPod, PodShape
from bigfleet.operator.core.rollup import Requested, Surplus, SurplusKey
from bigfleet.operator.core.rooms import NodeFacts, Rooms, Row, Workload
from bigfleet.operator.core.views import NodeShape, NodeView, Part, UpcomingNodeView, part

LOOK_EVERY_S: Final = 1.0
"""At least so long between two looks, so that a burst of changes costs one."""
LISTEN_EVERY_S: Final = 5.0
"""How often is checked whether the shard is still there, so that the time without it does not count."""
_CHANGES_PER_TURN: Final = 500
_ON_ITS_WAY: Final = frozenset({"Provisioning", "Launched", "Registered"})
_MIRROR_OWNER: Final = "Node"
_OF_A_REVISION: Final = frozenset(
    {"pod-template-hash", "controller-revision-hash", "apps.kubernetes.io/pod-index"}
)
_ALONE: Final = 1  # unit per machine


class SurplusSink(Protocol):
    """Where the surplus goes, and where the demand comes from."""

    async def put_surplus(self, surplus: Surplus) -> None:
        """Replace the whole surplus."""

    async def take_touched(self) -> list[tuple[DemandRow, Requested | None]]:
        """Return the rows whose requests changed since the last call."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    pod: Unplaced
    is_judged: bool  # by the scheduler


class FragmentsLoop:
    """The shell of the loop for fragments."""

    def __init__(
        self,
        rules: FragmentRules,
        caches: OperatorCaches,
        rollups: SurplusSink,
        *,
        is_connected: Callable[[], bool],
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._caches, self._rollups, self._is_connected = caches, rollups, is_connected
        self._clock, self._metrics = clock, metrics
        self._rooms = Rooms(lambda workload, facts: _suits(workload.shape, facts.shape))
        self._fragments = Fragments(rules, self._rooms)
        self._rows: WeakValueDictionary[tuple[str, str], Row] = WeakValueDictionary()
        self._workloads: WeakValueDictionary[tuple[object, ...], Workload] = WeakValueDictionary()
        self._waiting: dict[str, _Waiting] = {}
        self._coming: dict[str, Coming] = {}
        self._parts: dict[Row, dict[DemandRow, Requested]] = {}
        self._demand: dict[Row, RowDemand] = {}
        self._keys: dict[str, ObjectKey] = {}  # of pods by their uid
        self._pods = None if caches.pods is None else caches.pods.subscribe()
        self._nodes, self._upcoming = caches.nodes.subscribe(), caches.upcoming.subscribe()
        self._requests = caches.requests.subscribe()
        self._told: Mapping[Row, int] = {}
        self._log = structlog.get_logger("bigfleet.operator")

    async def begin(self) -> None:
        """Ask for what is there beyond the sums, before the first roll-up of the process."""
        await self._apply()
        await self._hand_on(self._fragments.begin(monotonic_s(self._clock), self._demand))

    async def run(self) -> NoReturn:
        """Look at the cluster whenever it is time, until cancelled."""
        heard_s = monotonic_s(self._clock)
        while True:
            await self._apply()
            now_s = monotonic_s(self._clock)
            if not self._is_heard():
                await self._clock.sleep(LOOK_EVERY_S)
                continue
            if now_s - heard_s > 2 * LISTEN_EVERY_S:
                self._fragments.pause(now_s - heard_s)
            answer = self._look(now_s)
            await self._hand_on(answer)
            await self._clock.sleep(LOOK_EVERY_S)
            heard_s = now_s
            while self._is_heard():
                heard_s = monotonic_s(self._clock)
                if heard_s >= answer.look_again_s or await self._changed(
                    min(answer.look_again_s - heard_s, LISTEN_EVERY_S)
                ):
                    break

    def _is_heard(self) -> bool:
        return self._is_connected() and self._caches.known_pods is not None

    def _look(self, now_s: float) -> FragmentsAnswer:
        return self._fragments.look(
            now_s,
            self._demand,
            [one.pod for one in self._waiting.values() if one.is_judged],
            list(self._coming.values()),
            unseen={
                one.pod.workload.row
                for one in self._waiting.values()
                if not one.is_judged and one.pod.workload.row is not None
            },
        )

    async def _hand_on(self, answer: FragmentsAnswer) -> None:
        surplus: dict[SurplusKey, Resources] = {}
        for row, extra in answer.extra.items():
            limit = _ALONE if extra.for_fragments else min(one.max_units for one in self._parts[row])
            surplus[SurplusKey(row.profile, row.group, extra.size, limit)] = extra.total
        await self._rollups.put_surplus(surplus)
        machines = {row: extra.machines for row, extra in answer.extra.items()}
        for row in sorted({*machines, *self._told}, key=lambda one: (one.profile.fingerprint, one.group)):
            before, now = self._told.get(row, 0), machines.get(row, 0)
            if before != now:
                self._log.info(
                    "fragments_changed",
                    profile=row.profile.fingerprint,
                    group=row.group,
                    machines=now,
                    before=before,
                )
                kind = "raised" if now > before else "lowered"
                self._metrics.counter("bigfleet_operator_fragments_changes_total", kind=kind).inc()
        self._told = machines
        self._metrics.gauge("bigfleet_operator_fragments_machines").set(sum(machines.values()))
        for why in Why:
            self._metrics.gauge("bigfleet_operator_fragments_stuck_pods", reason=why.value).set(
                answer.stuck.get(why, 0)
            )

    async def _changed(self, seconds: float) -> bool:
        """Return whether something changed within so many seconds, as soon as it did."""
        waits = [
            asyncio.ensure_future(wait)
            for wait in (
                self._nodes.wait(),
                self._upcoming.wait(),
                self._requests.wait(),
                *(() if self._pods is None else (self._pods.wait(),)),
            )
        ]
        try:
            async with timeout(self._clock, seconds):
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            return False
        finally:
            for one in waits:
                one.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        return True

    # ---- changes

    async def _apply(self) -> None:
        for row, requested in await self._rollups.take_touched():
            self._put_row(row, requested)
        while True:
            for upcoming in self._upcoming.take_some(_CHANGES_PER_TURN):
                self._put_upcoming(upcoming.before, upcoming.after)
            for node in self._nodes.take_some(_CHANGES_PER_TURN):
                self._put_node(node.key.name, node.after)
            for request in self._requests.take_some(_CHANGES_PER_TURN):
                for view in (request.before, request.after):
                    if view is not None and view.pod_uid:
                        self._put_pod(view.pod_uid)
            for pod in () if self._pods is None else self._pods.take_some(_CHANGES_PER_TURN):
                if pod.before is not None and (pod.after is None or pod.after.uid != pod.before.uid):
                    self._drop_pod(pod.before.uid)
                if pod.after is not None:
                    self._keys[pod.after.uid] = pod.key
                    self._put_pod(pod.after.uid)
            if not (len(self._upcoming) or len(self._nodes) or len(self._requests) or len(self._pods or ())):
                return
            await self._clock.sleep(0)

    def _put_row(self, demand_row: DemandRow, requested: Requested | None) -> None:
        row = self._row(demand_row)
        parts = self._parts.setdefault(row, {})
        if requested is None:
            parts.pop(demand_row, None)
        else:
            parts[demand_row] = requested
        if parts:
            self._demand[row] = _merged(parts)
        else:
            del self._parts[row]
            self._demand.pop(row, None)

    def _row(self, demand_row: DemandRow) -> Row:
        key = (demand_row.profile.fingerprint, demand_row.group)
        found = self._rows.get(key)
        if found is None:
            found = self._rows[key] = Row(demand_row.profile, demand_row.group)
        return found

    def _put_node(self, name: str, view: NodeView | None) -> None:
        if view is None:
            self._rooms.drop_node(name)
            return
        upcoming = next(iter(self._caches.upcoming_on(name)), None)
        if upcoming is None and view.machine_id:
            upcoming = self._caches.upcoming_of(view.machine_id)
        shape = view.shape
        spec: Part = {} if upcoming is None else upcoming.spec
        counted = _amounts(spec.get("resources")) or shape.allocatable
        in_service = shape.ready and not shape.unschedulable and not view.reclaim_id
        machine_id = view.machine_id if upcoming is None else upcoming.machine_id
        facts = NodeFacts(
            name=name,
            machine_id=machine_id,
            labels={**_texts(spec.get("labels")), **dict(shape.labels.items())},
            allocatable=shape.allocatable,
            counted=counted if machine_id else ZERO,
            in_service=in_service,
            shape=shape,
        )
        self._rooms.put_node(facts, monotonic_s(self._clock))
        if in_service:
            self._coming.pop(machine_id, None)

    def _put_upcoming(self, before: UpcomingNodeView | None, after: UpcomingNodeView | None) -> None:
        for view in (before, after):
            name = "" if view is None else str(view.node_ref.get("name") or "")
            if name:
                self._put_node(name, self._caches.named(name))
        if after is None or after.phase not in _ON_ITS_WAY:
            gone = after if after is not None else before
            if gone is not None:
                self._coming.pop(gone.machine_id, None)
            return
        node = self._rooms.facts(str(after.node_ref.get("name") or ""))
        if node is not None and node.in_service:
            return
        known = self._coming.get(after.machine_id)
        self._coming[after.machine_id] = Coming(
            after.machine_id,
            _texts(after.spec.get("labels")),
            _amounts(after.spec.get("resources")),
            monotonic_s(self._clock) if known is None else known.since_s,
        )

    def _drop_pod(self, uid: str) -> None:
        self._rooms.drop_pod(uid)
        self._waiting.pop(uid, None)
        self._keys.pop(uid, None)

    def _put_pod(self, uid: str) -> None:
        key, pods = self._keys.get(uid), self._caches.pods
        view = None if key is None or pods is None else pods.get(key)
        if view is None or view.uid != uid:
            self._drop_pod(uid)
            return
        workload = self._workload(view)
        if view.node:
            self._waiting.pop(uid, None)
            self._rooms.put_pod(uid, workload, view.node)
            return
        self._rooms.drop_pod(uid)
        if view.leaving or workload.is_daemon:
            self._waiting.pop(uid, None)
            return
        self._waiting[uid] = _Waiting(Unplaced(uid, workload, self._since_s(view)), view.is_stuck)

    def _since_s(self, view: ClusterPod) -> float:
        """Return since when the scheduler says that nothing takes a pod, by our own clock."""
        now_s = monotonic_s(self._clock)
        passed_s = self._clock.wall_ns() / NANOSECONDS - view.unscheduled_since_s
        return now_s - max(passed_s, 0.0) if view.unscheduled_since_s else now_s

    def _workload(self, view: ClusterPod) -> Workload:
        found = next(
            (one.found.row for one in self._caches.requests_of(view) if isinstance(one.found, Contribution)),
            None,
        )
        row = None if found is None else self._row(found)
        owner = f"{view.key.namespace}/{view.owner_kind}/{view.owner_name}"
        apart = _apart(view)
        key = (
            None if found is None else (found.profile.fingerprint, found.group),
            owner,
            id(view.shape),
            apart,
        )
        known = self._workloads.get(key)
        if known is None or known.shape is not view.shape:
            known = self._workloads[key] = Workload(
                row=row,
                owner=owner,
                requests=view.shape.requests,
                shape=view.shape,
                apart=apart,
                is_daemon=view.is_daemon or view.owner_kind == _MIRROR_OWNER,
                is_movable=view.shape.is_simple
                and bool(view.owner_kind)
                and (row is None or row.profile.same_key is None),
            )
        return known


def _apart(view: ClusterPod) -> str:
    """Return a text that pods share which keep off one another's nodes."""
    if view.shape.keeps_apart:
        labels = ",".join(f"{key}={value}" for key, value in view.labels.items() if key not in _OF_A_REVISION)
        return f"{view.key.namespace}/{labels}"
    return ",".join(f"{port.protocol}:{port.port}" for port in view.shape.host_ports)


def _suits(shape: object, node: object) -> bool:
    return isinstance(shape, PodShape) and isinstance(node, NodeShape) and suits(shape, node)


def _merged(parts: Mapping[DemandRow, Requested]) -> RowDemand:
    """Return what rows ask for together that differ in their limit alone."""
    total, unit, counted = ZERO, ZERO, ZERO
    for row, requested in parts.items():
        total, unit = total + requested.total, unit.maximum(requested.unit)
        if row.max_units and not requested.unit.is_zero:
            counted = counted.maximum(requested.unit.scaled(row.max_units))
    if not all(row.max_units for row in parts):
        counted = ZERO
    least = Resources((name, min(one.unit.amount(name) for one in parts.values())) for name in unit)
    return RowDemand(total, unit, counted, least)


def _amounts(texts: object) -> Resources:
    found: dict[str, int] = {}
    for name, text in part(texts).items():
        try:
            found[name] = max(0, parse_quantity(str(text)))
        except InvalidFieldError:
            continue
    return Resources(found)


def _texts(entries: object) -> dict[str, str]:
    return {str(key): str(value) for key, value in part(entries).items()}
