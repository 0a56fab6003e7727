"""Law: after any faults and some quiet minutes there is one UpcomingNode per bound machine, and no stale cordon of ours.

`operator#convergence`, and what the fault tables ask for: no pod is evicted twice, no UpcomingNode leaks, every request
is reported.
"""

import random
from collections import Counter
from typing import Any

import pytest

from bigfleet.kube.resources import (
    AVAILABLE_CAPACITIES,
    CAPACITY_REQUESTS,
    NODES,
    PODS,
    UPCOMING_NODES,
    ObjectKey,
)
from bigfleet.kube.transport import ApiResponse, Document
from bigfleet.model.quantity import parse_quantity
from bigfleet.testing.loop import run_virtual
from tests.support.kube_api.faults import Fault, Trouble
from tests.support.kube_api.objects import BUDGETS
from tests.support.scripted_shard import hint, node_state, reclaim
from tests.unit.operator.world import PREFIX, World

PHASES = {
    "Creating": {"Provisioning"},
    "Configuring": {"Registered"},
    "Configured": {"Ready"},
    "Draining": {"Draining", "Drained", "Failed"},
    "Failed": {"Failed"},
}
SERVING = ("Configuring", "Configured")
LEFT = ("Idle", "Speculative", "Deleting")


def refusal(code: int, reason: str) -> ApiResponse:
    return ApiResponse(code, {"kind": "Status", "code": code, "reason": reason, "message": "no"})


FAULTS: tuple[tuple[Any, dict[str, Any]], ...] = (
    (refusal(409, "Conflict"), {"method": "PATCH"}),
    (refusal(409, "Conflict"), {"method": "DELETE"}),
    (refusal(429, "TooManyRequests"), {}),
    (refusal(500, "InternalError"), {"watch": False}),
    (refusal(403, "Forbidden"), {"watch": False}),
    (ApiResponse(503, "<html>no</html>"), {}),
    (refusal(410, "Expired"), {"watch": True}),
    (Trouble.LOSE_ANSWER, {"method": "POST"}),
    (Trouble.LOSE_ANSWER, {"method": "PATCH"}),
    (Trouble.LOSE_ANSWER, {"method": "DELETE"}),
    (Trouble.BREAK, {}),
    (Trouble.SILENCE, {"watch": False}),
    (Trouble.SILENCE, {"watch": True}),
    (Trouble.CUT, {"watch": True}),
)
ACTS = {
    "bind": 5,
    "go on": 8,
    "reclaim": 5,
    "leave": 4,
    "fail": 1,
    "join": 5,
    "pods": 4,
    "finish pods": 3,
    "linger": 1,
    "budget": 2,
    "person": 1,
    "forget": 1,
    "request": 3,
    "withdraw": 1,
    "hint": 1,
    "fault": 6,
    "heal": 2,
    "kill": 3,
    "start": 4,
    "hang up": 2,
    "shard goes": 1,
    "shard comes": 2,
    "wait": 6,
}


class Storm(World):
    """A cluster, its machines as the shard knows them, and an operator under random faults."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.draw = random.Random(seed)
        self.bound: dict[str, str] = {}
        self.by_person: set[str] = set()
        self.number = 0
        self.evicted: Counter[str] = Counter()
        inner = self.api._evict

        def noted(key: ObjectKey, body: Document) -> Document:
            uid = self.api.objects.of(PODS).get(key, {}).get("metadata", {}).get("uid", "")
            answer = inner(key, body)
            self.evicted[uid] += 1  # accepted, or it would have been raised
            return answer

        self.api._evict = noted  # type: ignore[method-assign]

    @property
    def is_running(self) -> bool:
        return self.running is not None and not self.running.done()

    def send_state(self, machine: str, state: str) -> None:
        """Set the state of a machine in the shard, and send it if a session is up; else it is sent after the next hello."""
        if state in LEFT:
            self.bound.pop(machine, None)
        else:
            self.bound[machine] = state
        self.shard.replay = [self.frame(name, known) for name, known in self.bound.items()]
        if self.server is not None and self.shard.is_connected:
            self.shard.send(self.frame(machine, state))

    def frame(self, machine: str, state: str) -> Any:
        error = "broken" if state == "Failed" else ""
        return node_state(machine, state, provider_id=f"host-{machine}", last_error=error)

    def some(self, *states: str) -> str:
        return self.draw.choice(sorted(name for name, state in self.bound.items() if state in states) or [""])

    def key_of_some(self, resource: Any) -> ObjectKey | None:
        keys = sorted(self.api.objects.of(resource))
        return self.draw.choice(keys) if keys else None

    async def crash(self) -> None:
        """Kill the operator: nothing that it has not sent yet arrives."""
        self.transport.add(Fault(Trouble.BREAK, times=10**9))
        self.transport.faults.reverse()
        await self.stop_operator()

    async def step(self) -> None:
        """Apply one random event."""
        (act,) = self.draw.choices(list(ACTS), list(ACTS.values()))
        await self._machines(act)
        await self._cluster(act)
        await self._processes(act)
        for _ in range(self.draw.randrange(20)):
            await self.clock.sleep(0)

    async def _machines(self, act: str) -> None:
        match act:
            case "bind" if (machine := f"m{self.draw.randrange(8)}") not in self.bound:
                self.send_state(machine, self.draw.choice(("Creating", "Configuring")))
            case "go on" if machine := self.some("Creating", "Configuring"):
                self.send_state(machine, "Configuring" if self.bound[machine] == "Creating" else "Configured")
            case "reclaim" if machine := self.some("Configured"):
                self.number += 1
                # As our shard does it: the instruction, and in the same breath the state.
                if self.server is not None and self.shard.is_connected:
                    grace_s = self.draw.choice((0, 5, 30, 600))
                    self.shard.send(reclaim(f"i{self.number}", machine, grace_s=grace_s, machines=[machine]))
                self.send_state(machine, "Draining")
                if self.draw.random() < 0.2:
                    self.send_state(machine, "Configured")  # the provider could not be called: undone
            case "leave" if machine := self.some("Creating", "Configuring", "Draining", "Failed"):
                # An Idle machine that is not bound yet is shown as Launched; only an older shard sends such a state.
                self.send_state(
                    machine, self.draw.choice(LEFT[1:] if self.bound[machine] == "Creating" else LEFT)
                )
                if self.draw.random() < 0.5:  # else the hardware is used again, and its Node with it
                    await self._remove_node(f"ip-{machine}")
            case "fail" if machine := self.some("Creating", "Configuring", "Configured", "Draining"):
                self.send_state(machine, "Failed")
            case "hint" if self.server is not None and self.shard.is_connected:
                self.shard.send(hint(f"p=1|{self.draw.randrange(3)}", self.draw.randrange(9)))

    async def _remove_node(self, name: str) -> None:
        if ObjectKey("", name) in self.api.objects.of(NODES):
            await self.delete(NODES, ObjectKey("", name))
            self.by_person.discard(name)
        for key, found in list(self.api.objects.of(PODS).items()):
            if found["spec"]["nodeName"] == name:
                self.api.finish_pod(key)

    async def _cluster(self, act: str) -> None:
        nodes = sorted(key.name for key in self.api.objects.of(NODES))
        match act:
            case "join" if machine := self.some(*SERVING):
                if f"ip-{machine}" not in nodes:
                    await self.add_node(f"ip-{machine}", provider_id=f"fake:///z/host-{machine}")
            case "pods" if nodes:
                self.number += 1
                app = self.draw.choice(("web", "free", "free"))
                await self.add_pods(self.draw.choice(nodes), f"p{self.number}", app=app)
            case "finish pods":
                for key, found in list(self.api.objects.of(PODS).items()):
                    if found["metadata"].get("deletionTimestamp"):
                        self.api.finish_pod(key)
            case "linger":
                self.api.pods_linger = not self.api.pods_linger
            case "budget":
                allowed = {"status": {"disruptionsAllowed": self.draw.choice((0, 0, 3))}}
                if self.api.objects.of(BUDGETS):
                    await self.patch(BUDGETS, ObjectKey("shop", "web"), allowed)
                else:
                    spec = {"selector": {"matchLabels": {"app": "web"}}}
                    await self.add(
                        BUDGETS, {"metadata": {"name": "web", "namespace": "shop"}, "spec": spec, **allowed}
                    )
            case "person" if nodes:
                name = self.draw.choice(nodes)
                if not self.node(name)["spec"].get("unschedulable"):
                    await self.patch(NODES, ObjectKey("", name), {"spec": {"unschedulable": True}})
                    await self._seen_cordoned(name)
                    if not self.node(name)["metadata"].get("annotations"):
                        self.by_person.add(name)
            case "forget" if forgotten := self.key_of_some(UPCOMING_NODES):
                machine = forgotten.name.removeprefix("un-")
                await self.delete(UPCOMING_NODES, forgotten)
                if machine in self.bound:  # comes back at the next frame (`operator#n3`)
                    self.send_state(machine, self.bound[machine])
            case "request":
                self.number += 1
                await self.add_request(f"r{self.number}", priority=self.draw.randrange(3))
            case "withdraw" if withdrawn := self.key_of_some(CAPACITY_REQUESTS):
                await self.delete(CAPACITY_REQUESTS, withdrawn)

    async def _seen_cordoned(self, name: str) -> None:
        """Wait until a running operator has seen a cordon: it takes one that it has not seen for its own."""

        def known() -> bool:
            node = self.operator.caches.named(name) if self.operator is not None else None
            return not self.is_running or (node is not None and node.unschedulable)

        await self.eventually(known, 3600)

    async def _processes(self, act: str) -> None:
        match act:
            case "fault" if self.is_running:
                what, where = self.draw.choice(FAULTS)
                self.transport.add(Fault(what, times=self.draw.randint(1, 12), **where))
            case "heal":
                self.transport.heal()
            case "kill" if self.is_running:
                await self.crash()
            case "start" if not self.is_running:
                self.start_operator()
            case "hang up" if self.server is not None and self.shard.is_connected:
                self.shard.current.close()
            case "shard goes" if self.server is not None:
                await self.stop_shard()
            case "shard comes" if self.server is None:
                await self.start_shard()
            case "wait":
                await self.clock.sleep(self.draw.choice((0.01, 0.5, 3, 15, 120, 700)))

    # ---- the law

    def wrong(self) -> list[str]:
        """Return the violations of the law, as texts."""
        found = {
            name.removeprefix("un-"): self.phase(name.removeprefix("un-"))
            for name in self.all(UPCOMING_NODES)
        }
        problems = [
            f"{name} is {state}, no object" for name, state in self.bound.items() if name not in found
        ]
        problems += [
            f"{name} left, its object is {phase}" for name, phase in found.items() if name not in self.bound
        ]
        problems += [
            f"{name} is {state}, its object {found[name]}"
            for name, state in self.bound.items()
            if name in found and found[name] not in PHASES[state]
        ]
        for name, node in self.all(NODES).items():
            marks = node["metadata"].get("annotations") or {}
            serves = self.bound.get(name.removeprefix("ip-")) in SERVING
            if f"{PREFIX}/reclaim-deadline" in marks:
                problems.append(f"{name} still has a deadline")
            if serves and marks:
                problems.append(f"{name} serves and has {sorted(marks)}")
            if serves and node["spec"].get("unschedulable") and name not in self.by_person:
                problems.append(f"{name} serves and is cordoned")
            if name in self.by_person and not node["spec"].get("unschedulable"):
                problems.append(f"{name}: a person's cordon was lifted")
        problems += [f"{uid} was evicted {times} times" for uid, times in self.evicted.items() if times > 1]
        problems += [f"{name} stays" for name in self.all(AVAILABLE_CAPACITIES)]
        problems += [
            f"{name} is not acknowledged"
            for name, item in self.all(CAPACITY_REQUESTS).items()
            if (item.get("status") or {}).get("phase") != "Acknowledged"
        ]
        needs = self.shard.current.rollups[-1].needs
        sent = sum(parse_quantity(need.aggregate_resources["cpu"]) for need in needs)
        if sent != parse_quantity("500m") * len(self.all(CAPACITY_REQUESTS)):
            problems.append(f"the last roll-up asks for {sent} nano")
        return problems


@pytest.mark.rule("operator#convergence")
@pytest.mark.parametrize(
    "seed", [*range(30), *(pytest.param(n, marks=pytest.mark.long) for n in range(30, 600))]
)
def test_after_quiet_minutes_objects_are_as_the_shard_says_and_no_pod_was_evicted_twice(seed: int) -> None:
    async def scene() -> None:
        storm = Storm(seed)
        await storm.start_shard()
        storm.start_operator()
        for _ in range(storm.draw.randint(20, 120)):
            await storm.step()
        storm.transport.heal()
        storm.api.pods_linger = False
        await storm._cluster("finish pods")
        if storm.server is None:
            await storm.start_shard()
        if not storm.is_running:
            storm.start_operator()
        await storm.clock.sleep(1500)  # a drain, then the wait for unnamed machines
        assert storm.wrong() == []
        assert storm.operator is not None
        assert not storm.operator.drains.machines
        calls = storm.transport.count(lambda call: call.method != "GET")
        await storm.clock.sleep(700)
        assert storm.transport.count(lambda call: call.method != "GET") == calls
        await storm.stop_operator()

    run_virtual(scene())
