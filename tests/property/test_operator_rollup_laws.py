"""Laws of the roll-up: the order of requests never shows, nothing is lost or added, and what is kept is what a sum would give."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from bigfleet.aio.rng import SeededRng
from bigfleet.kube.client import KubeClient
from bigfleet.kube.events import EventRecorder
from bigfleet.kube.limiter import RateLimiter
from bigfleet.kube.resources import ObjectKey
from bigfleet.model.quantity import parse_quantity
from bigfleet.model.resources import Resources
from bigfleet.obs.metrics import Metrics
from bigfleet.operator.acknowledge import Acknowledger
from bigfleet.operator.caches import OperatorCaches
from bigfleet.operator.core.contribution import Contribution, Contributions
from bigfleet.operator.core.request_status import view_of
from bigfleet.operator.core.rollup import NO_SURPLUS, KeptDemand, RollupRow, Surplus, SurplusKey
from bigfleet.operator.metrics import OPERATOR_METRICS
from bigfleet.operator.refused_rollups import RefusedRollups
from bigfleet.operator.rollup_loop import RollupCadence, RollupLoop
from bigfleet.operator.session.uplink import Uplink
from bigfleet.testing.clock import VirtualClock
from bigfleet.testing.loop import run_virtual
from tests.support.kube_api.api import InMemoryApi
from tests.support.plain_rollup import plain_rollup

KEYS = st.sampled_from(["zone", "rack", "a.example/type"])
VALUES = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3)
REQUIREMENTS = st.lists(
    st.one_of(
        st.fixed_dictionaries({"key": KEYS, "operator": st.sampled_from(["In", "NotIn"]), "values": VALUES}),
        st.fixed_dictionaries({"key": KEYS, "operator": st.sampled_from(["Exists", "DoesNotExist"])}),
    ),
    max_size=3,
)
AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "gpu"]),
    st.sampled_from(["1", "500m", "1Gi", "1G", "0", "1536Mi"]),
    max_size=3,
)
SELECTORS = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {
            "matchLabels": st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["x", "y"])),
            "matchExpressions": st.lists(
                st.fixed_dictionaries({"key": KEYS, "operator": st.just("In"), "values": VALUES}), max_size=2
            ),
        }
    ),
)
SPECS = st.fixed_dictionaries(
    {"priority": st.integers(0, 2), "resources": AMOUNTS, "requirements": REQUIREMENTS},
    optional={
        "coLocation": st.fixed_dictionaries({"topologyKey": KEYS, "labelSelector": SELECTORS}),
        "interruptionPenalty": st.sampled_from(["0", "250m", 7]),
    },
)


def rows(specs: list[dict[str, Any]]) -> list[RollupRow]:
    makes, demand = Contributions(), KeptDemand()
    for number, spec in enumerate(specs):
        view = view_of({}, None, makes.of({"namespace": "shop"}, spec))
        assert demand.put(ObjectKey("shop", f"r{number}"), view)
    made = dict(demand.take_changed(10**6))
    found = [made[row] for row in demand.order()]
    return [row for row in found if row is not None]


def shuffled(value: Any, random: Random) -> Any:
    """Return the same demand in another order."""
    if isinstance(value, dict):
        entries = [(name, shuffled(inner, random)) for name, inner in value.items()]
        random.shuffle(entries)
        return dict(entries)
    if isinstance(value, list):
        items = [shuffled(inner, random) for inner in value]
        random.shuffle(items)
        return items
    return value


@pytest.mark.rule("operator#equal-bytes")
@given(st.lists(SPECS, max_size=8), st.randoms(use_true_random=False))
def test_no_order_of_requests_labels_values_or_expressions_shows(
    specs: list[dict[str, Any]], random: Random
) -> None:
    assert rows(specs) == rows(shuffled(specs, random))


@given(st.lists(SPECS, max_size=8))
def test_the_total_of_all_rows_is_the_total_of_all_requests(specs: list[dict[str, Any]]) -> None:
    for name in ("cpu", "memory", "gpu"):
        asked = sum(parse_quantity(spec["resources"].get(name, "0")) for spec in specs)
        assert sum(parse_quantity(row.total.get(name, "0")) for row in rows(specs)) == asked
        largest = max((parse_quantity(spec["resources"].get(name, "0")) for spec in specs), default=0)
        assert max((parse_quantity(row.unit.get(name, "0")) for row in rows(specs)), default=0) == largest


@given(st.lists(SPECS, max_size=8))
def test_rows_are_distinct(specs: list[dict[str, Any]]) -> None:
    identities = [(row.profile.fingerprint, row.group) for row in rows(specs)]
    assert len(set(identities)) == len(identities)


NAMES = st.sampled_from(["r0", "r1", "r2"])
# Few rows and amounts, so that requests share them; all the others are rare.
SHARED = st.fixed_dictionaries(
    {
        "priority": st.integers(1, 2),
        "resources": st.sampled_from([{"cpu": "1"}, {"cpu": "1Gi"}, {"cpu": "3"}]),
    },
    optional={"coLocation": st.just({"topologyKey": "rack"})},
)
BAD = st.sampled_from([None, {}, {"resources": {"cpu": "-1"}}])
REQUESTS = st.fixed_dictionaries(
    {
        "spec": st.one_of(SHARED, SHARED, SHARED, SPECS, BAD),
        "uid": st.sampled_from(["u1", "u2"]),
        "scope": st.sampled_from(["", "team-a"]),
        "phase": st.sampled_from(["", "Acknowledged"]),
    }
)
# For profiles that requests have, such as the gang, and for one that none has.
SURPLUS = st.dictionaries(
    st.builds(
        SurplusKey,
        st.sampled_from(
            [
                found.row.profile
                for spec in ({}, {"coLocation": {"topologyKey": "rack"}}, {"priority": 7})
                if isinstance(
                    found := Contributions().of({}, {"priority": 1, "resources": {}, **spec}), Contribution
                )
            ]
        ),
        st.sampled_from(["", "shop\0rack\0", "team-a\0rack\0"]),
        st.sampled_from([Resources(), Resources.parse({"cpu": "1"}), Resources.parse({"memory": "1Gi"})]),
        st.integers(0, 1),
    ),
    st.sampled_from([Resources(), Resources.parse({"cpu": "1"}), Resources.parse({"cpu": "7", "pods": "2"})]),
    max_size=4,
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("applied"), NAMES, REQUESTS),
        st.tuples(st.just("written by us"), NAMES, REQUESTS),
        st.tuples(st.just("status changed"), NAMES, st.sampled_from(["Pending", "Acknowledged"])),
        st.tuples(st.just("deleted"), NAMES),
        st.tuples(st.just("listed again"), st.dictionaries(NAMES, REQUESTS)),
        st.tuples(st.just("followed")),
        st.tuples(st.just("raised"), SURPLUS),
    ),
    max_size=8,
)


class Kept:
    """A kept roll-up before a cache that changes, and the documents that the cache should hold."""

    def __init__(self) -> None:
        self.clock = clock = VirtualClock()
        client = KubeClient(InMemoryApi(clock).transport(), RateLimiter(clock))
        metrics = Metrics(OPERATOR_METRICS, CollectorRegistry(), version="0", commit="0")
        caches = OperatorCaches(client, clock, SeededRng(1))
        events = EventRecorder(client, "law", clock=clock)
        writes = Acknowledger(client, caches, events, clock=clock, metrics=metrics, concurrency=1)
        refusals = RefusedRollups(events, writes.mark, clock=clock, metrics=metrics)
        cadence = RollupCadence(10.0, 0.1, 1.0)
        self.store, self.version = caches.requests, 1
        self.rollups = RollupLoop(
            "c", caches, writes, refusals, clock=clock, metrics=metrics, cadence=cadence
        )
        self.uplink = Uplink(clock, metrics)
        self.documents: dict[str, dict[str, Any]] = {}
        self.surplus: Surplus = NO_SURPLUS

    def document(self, name: str, request: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        scope = {"bigfleet.lucy.sh/co-location-scope": request["scope"]} if request["scope"] else {}
        metadata = {"name": name, "namespace": "shop", "uid": request["uid"], "annotations": scope}
        return {
            "metadata": {**metadata, "resourceVersion": str(self.version)},
            "spec": request["spec"],
            "status": {"phase": request["phase"]},
        }

    async def step(self, kind: str, *about: Any) -> None:
        if kind == "followed":
            self.rollups._apply_some()
        match kind, *about:
            case (("applied" | "written by us"), name, request):
                self.documents[name] = document = self.document(name, request)
                (self.store.apply if kind == "applied" else self.store.observe)(document)
            case "status changed", name, phase if name in self.documents:
                self.version += 1
                before = self.documents[name]
                metadata = {**before["metadata"], "resourceVersion": str(self.version)}
                self.documents[name] = {**before, "metadata": metadata, "status": {"phase": phase}}
                self.store.apply(self.documents[name])
            case "deleted", name if name in self.documents:
                self.version += 1
                gone = self.documents.pop(name)
                self.store.remove(
                    {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(self.version)}}
                )
            case "raised", surplus:
                self.surplus = surplus
                await self.rollups.put_surplus(surplus)
            case "listed again", requests:
                self.documents = {name: self.document(name, request) for name, request in requests.items()}
                self.store.begin_list()
                for document in self.documents.values():
                    self.store.stage(document)
                await self.store.finish_list(self.version)

    async def check(self) -> None:
        await self.rollups._tick(self.uplink, first=False)
        assert self.uplink._rollup is not None
        plain = plain_rollup("c", self.clock.wall_ns(), self.documents.values(), self.surplus)
        assert self.uplink._rollup.frame == plain
        assert set(self.rollups._encoded) == set(self.rollups._demand.order())  # nothing is left behind


@pytest.mark.rule("operator#kept-demand", "operator#surplus", "testing#i32")
@given(st.lists(STEPS, min_size=1, max_size=6))
def test_after_any_events_of_requests_and_any_surplus_the_kept_rollup_is_the_sum_from_scratch_byte_for_byte(
    times: list[list[tuple[Any, ...]]],
) -> None:
    async def story() -> None:
        kept = Kept()
        for steps in times:
            for step in steps:
                await kept.step(*step)
            await kept.check()

    run_virtual(story())
