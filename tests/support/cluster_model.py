"""A small cluster with its shard, step by step: pods, a scheduler by first fit, a shard that buys for sums.

Why: the loop for fragments closes over all of them, so its laws can only be shown with all of them.
The scheduler is fair but not clever: it takes pods and nodes in any order. The shard credits machines by price, buys the cheapest
that matches and holds the unit, and drains what no row claims; it knows nothing of pods.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from bigfleet.model.matching import holds
from bigfleet.model.profile import ZONE_KEY
from bigfleet.model.resources import ZERO, Resources
from bigfleet.operator.core.fragment_terms import (
    Coming,
    Extra,
    FragmentRules,
    FragmentsAnswer,
    RowDemand,
    Unplaced,
)
from bigfleet.operator.core.fragments import Fragments
from bigfleet.operator.core.rooms import NodeFacts, Rooms, Row, Workload

STEP_S = 15.0


@dataclass(frozen=True)
class Kind:
    """A kind of machine that can be bought."""

    name: str
    size: Resources
    price: float
    zone: str = "a"
    stock: int = 10_000

    @property
    def labels(self) -> dict[str, str]:
        return {ZONE_KEY: self.zone, "node.kubernetes.io/instance-type": self.name}


@dataclass
class Box:
    """A machine that was bought."""

    id: str
    kind: Kind
    bought_s: float
    is_ready: bool = False


@dataclass
class Pod:
    """A pod; an evicted one is made anew under another uid."""

    uid: str
    workload: Workload
    node: str = ""
    since_s: float | None = None  # since when the scheduler says that nothing takes it


@dataclass
class Cluster:
    """The world of one cluster, moved on by `step`."""

    kinds: Sequence[Kind]
    random: Random
    rules: FragmentRules = field(default_factory=FragmentRules)
    refuses: Callable[[Pod, Box], bool] = lambda _pod, _box: False
    daemon: Workload | None = None
    fragments_on: bool = True
    now_s: float = 1000.0
    scheduler_is_up: bool = True
    fragments_first: bool = True

    def __post_init__(self) -> None:
        self.rooms = Rooms(suits=lambda pod, node: True if pod.row is None else _meets(pod.row, node.labels))
        self.fragments = Fragments(self.rules, self.rooms)
        self.pods: dict[str, Pod] = {}
        self.boxes: dict[str, Box] = {}
        self.answer = FragmentsAnswer({}, {}, 0.0)
        self.bought: list[tuple[float, str]] = []
        self.released: list[tuple[float, str]] = []
        self.raises: list[float] = []
        self.lowered: list[float] = []
        self.left_homeless: list[str] = []
        self._made = 0

    # ---- what a test does

    def add(self, workload: Workload, count: int = 1) -> list[str]:
        """Create pods."""
        uids = []
        for _ in range(count):
            self._made += 1
            uid = f"p-{self._made:04d}"
            self.pods[uid] = Pod(uid, workload)
            uids.append(uid)
        return uids

    def remove(self, uid: str) -> None:
        """Delete a pod."""
        self.rooms.drop_pod(uid)
        del self.pods[uid]

    def step(self, count: int = 1) -> None:
        """Move on: the loop looks, the shard decides, machines join, the scheduler places."""
        for _ in range(count):
            self.now_s += STEP_S
            self._look()
            self._shard()
            self._join()
            self._schedule()

    @property
    def waiting(self) -> list[Pod]:
        """The pods without a node."""
        return [pod for pod in self.pods.values() if not pod.node]

    def demand(self) -> dict[Row, RowDemand]:
        """What the requests of all pods add up to."""
        parts: dict[Row, dict[bool, RowDemand]] = {}
        for (row, is_one), part in self._parts().items():
            parts.setdefault(row, {})[is_one] = part
        return {row: _merged(found) for row, found in parts.items()}

    def _parts(self) -> dict[tuple[Row, bool], RowDemand]:
        """Return the rows of the roll-up; pods that keep apart are counted one per machine, as the pod controller says it."""
        found: dict[tuple[Row, bool], RowDemand] = {}
        for pod in self.pods.values():
            workload = pod.workload
            if workload.row is not None:
                key = (workload.row, bool(workload.apart))
                before = found.get(key, RowDemand(ZERO, ZERO))
                unit = before.unit.maximum(workload.requests)
                found[key] = RowDemand(before.total + workload.requests, unit)
        return found

    # ---- the operator

    def _look(self) -> None:
        before = self.answer
        if self.fragments_on:
            self.answer = self.fragments.look(
                self.now_s,
                self.demand(),
                [Unplaced(p.uid, p.workload, p.since_s) for p in self.waiting if p.since_s is not None],
                [
                    Coming(box.id, box.kind.labels, box.kind.size, box.bought_s)
                    for box in self.boxes.values()
                    if not box.is_ready
                ],
                unseen={p.workload.row for p in self.waiting if p.since_s is None and p.workload.row},
            )
        after = self.answer
        count, was = (sum(one.machines for one in answer.extra.values()) for answer in (after, before))
        if count > was:
            self.raises.append(self.now_s)
        if count < was:
            self.lowered.append(self.now_s)
        self._before = before

    # ---- the shard

    def _shard(self) -> None:
        claimed = self._claims(self.answer.extra, buys=True)
        kept_before = self._claims(self._before.extra, buys=False)
        for name in sorted(set(self.boxes) - claimed):
            if self.boxes[name].is_ready:
                self._drain(name, freed=name in kept_before and self.now_s in self.lowered)

    def _claims(self, extra: Mapping[Row, Extra], *, buys: bool) -> set[str]:
        claimed: set[str] = set()
        for row, total, unit, at_most in self._rows(extra):
            missing = total
            domain: str | None = None
            walk = sorted(self.boxes.values(), key=lambda box: (not box.is_ready, box.kind.price, box.id))
            if row.profile.same_key:
                domain = self._domain(row, walk, claimed, unit)
            for box in walk:
                if missing.is_zero:
                    break
                if box.id not in claimed and _serves(box.kind, row, unit, domain):
                    claimed.add(box.id)
                    missing -= box.kind.size.at_most(at_most) if at_most else box.kind.size
            while buys and not missing.is_zero:
                new = self._buy(row, unit, domain)
                if new is None:
                    break
                claimed.add(new.id)
                missing -= new.kind.size.at_most(at_most) if at_most else new.kind.size
        return claimed

    def _rows(self, extra: Mapping[Row, Extra]) -> list[tuple[Row, Resources, Resources, Resources]]:
        """Return row, total, unit and what a machine counts as at most, in the order in which rows are served."""
        asked = self._parts()
        rows = []
        for (row, is_one), found in asked.items():
            more = extra.get(row)
            total = found.total
            if more is not None and not more.for_fragments and (not is_one or (row, False) not in asked):
                total += more.total
            is_gang = row.profile.same_key is not None
            rows.append(
                (
                    (-row.profile.priority, not is_gang, 1, is_one),
                    row,
                    total,
                    found.unit,
                    found.unit if is_one else ZERO,
                )
            )
        for row, more in extra.items():
            if more.for_fragments:
                place = 0 if self.fragments_first else 2
                rows.append(
                    ((-row.profile.priority, True, place, True), row, more.total, more.size, more.size)
                )
        rows.sort(key=lambda entry: (entry[0], entry[1].profile.fingerprint, entry[1].group))
        return [entry[1:] for entry in rows]

    def _domain(self, row: Row, walk: Iterable[Box], claimed: set[str], unit: Resources) -> str | None:
        found = self.rooms.domain_of(row)
        if found is not None:
            return found
        mine = [b.kind.zone for b in walk if b.id not in claimed and _serves(b.kind, row, unit, None)]
        offered = sorted((k.price, k.zone) for k in self.kinds if _serves(k, row, unit, None))
        return mine[0] if mine else (offered[0][1] if offered else None)

    def _buy(self, row: Row, unit: Resources, domain: str | None) -> Box | None:
        bought = [box.kind.name for box in self.boxes.values()]
        offered = [
            kind
            for kind in self.kinds
            if _serves(kind, row, unit, domain) and bought.count(kind.name) < kind.stock
        ]
        if not offered:
            return None
        self._made += 1
        kind = min(offered, key=lambda kind: (kind.price, kind.name))
        box = self.boxes[f"m-{self._made:04d}"] = Box(f"m-{self._made:04d}", kind, self.now_s)
        self.bought.append((self.now_s, box.id))
        return box

    def _drain(self, name: str, *, freed: bool) -> None:
        """Empty a machine and give it back; its pods are made anew and wait."""
        self.released.append((self.now_s, name))
        evicted = [pod for pod in self.pods.values() if pod.node == name]
        del self.boxes[name]
        self.rooms.drop_node(name)
        self.rooms.drop_pod(f"daemon-{name}")
        anew = []
        for pod in evicted:
            self.remove(pod.uid)
            anew += self.add(pod.workload)
        if freed:
            self._must_find_a_place = [*getattr(self, "_must_find_a_place", []), *anew]

    def _join(self) -> None:
        for box in self.boxes.values():
            if not box.is_ready and self.now_s >= box.bought_s + 2 * STEP_S:
                box.is_ready = True
                facts = NodeFacts(box.id, box.id, box.kind.labels, box.kind.size, box.kind.size)
                self.rooms.put_node(facts, self.now_s)
                if self.daemon is not None:
                    self.rooms.put_pod(f"daemon-{box.id}", self.daemon, box.id)

    # ---- the scheduler

    def _schedule(self) -> None:
        if not self.scheduler_is_up:
            return
        nodes = [box for box in self.boxes.values() if box.is_ready]
        waiting = self.waiting
        self.random.shuffle(waiting)
        for pod in waiting:
            self.random.shuffle(nodes)
            node = next((box for box in nodes if self._takes(box, pod)), None)
            if node is not None:
                pod.node, pod.since_s = node.id, None
                self.rooms.put_pod(pod.uid, pod.workload, node.id)
            elif pod.since_s is None:
                pod.since_s = self.now_s
        wanted = getattr(self, "_must_find_a_place", [])
        self.left_homeless += [uid for uid in wanted if uid in self.pods and not self.pods[uid].node]
        self._must_find_a_place = []

    def _takes(self, box: Box, pod: Pod) -> bool:
        if self.refuses(pod, box) or not self.rooms.has_free(pod.workload, box.id):
            return False
        row = pod.workload.row
        if row is not None:
            if not _meets(row, box.kind.labels):
                return False
            domain = self.rooms.domain_of(row)
            if domain is not None and box.kind.zone != domain:
                return False
        own = pod.workload.apart
        return not own or all(other.apart != own for other in self.rooms.pods_on(box.id))


def _merged(parts: Mapping[bool, RowDemand]) -> RowDemand:
    """Return what rows that differ in their limit alone ask for together."""
    total, unit = ZERO, ZERO
    for part in parts.values():
        total, unit = total + part.total, unit.maximum(part.unit)
    least = min((part.unit for part in parts.values()), key=lambda one: sorted(one.items()))
    least = Resources((name, min(p.unit.amount(name) for p in parts.values())) for name in least)
    return RowDemand(total, unit, unit if False not in parts else ZERO, least)


def _meets(row: Row, labels: Mapping[str, str]) -> bool:
    return all(holds(item, labels.get(item.key)) for item in row.profile.requirements)


def _serves(kind: Kind, row: Row, unit: Resources, domain: str | None) -> bool:
    return (
        _meets(row, kind.labels)
        and kind.size.covers(unit)
        and (domain is None or kind.labels.get(row.profile.same_key or "") == domain)
    )


__all__ = ["STEP_S", "Box", "Cluster", "Kind", "Pod", "replace"]
