"""The fake provider with its verbs, which tests, scripts and the HTTP control share.

Must never: return from a verb before it has taken effect.
Rules: `providers#fake-control`; each row of `providers#fault-injection` is reachable from here.

    async with FakeProvider(FakeOptions(seed=7), lambda: slots_of(pools), clock=clock, ids=ids, net=net) as fake:
        server = await fake.listen(":9000")
        fake.hold(kind="configure")
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from bigfleet.aio.identity import Identity
from bigfleet.aio.net import Code, RpcRefusedError
from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.machine import MachineState
from bigfleet.provider.contract import SERVICE, OperationKind
from bigfleet.provider.errors import NoSuchMachineError
from bigfleet.provider.fake.events import SeenCall
from bigfleet.provider.fake.injected_faults import (
    CallFault,
    CallFaultKind,
    FailureMode,
    OperationFault,
    PlannedFault,
)
from bigfleet.provider.fake.inventory import Pool, slots_of
from bigfleet.provider.fake.latency import parse_latency
from bigfleet.provider.fake.lifecycle import FakeLifecycle
from bigfleet.provider.fake.nodes import JoiningNode
from bigfleet.provider.fake.selector import Selector
from bigfleet.provider.fake.service import Handler
from bigfleet.provider.fake.specs import (
    ANY,
    CAPACITY_TYPES,
    LATENCY_KINDS,
    STEPS,
    StockoutWindow,
    known,
    rpc_named,
)
from bigfleet.provider.kit.core.fence import NO_TOKEN, FencingToken
from bigfleet.provider.kit.core.transitions import Lost, Priced
from bigfleet.provider.kit.core.values import MachineRecord
from bigfleet.transport.inside import InsideCall
from bigfleet.v1alpha1 import provider_pb2 as pb

FORCED: Final = "forced to fail"
REMOVED: Final = "taken away"
ALL_MACHINES: Final = Selector()
_REQUESTS: Final = {
    OperationKind.CREATE: pb.CreateRequest,
    OperationKind.CONFIGURE: pb.ConfigureRequest,
    OperationKind.DRAIN: pb.DrainRequest,
    OperationKind.DELETE: pb.DeleteRequest,
}


class FakeProvider(FakeLifecycle):
    """A fake provider; start, listen and stop are inherited."""

    # Reads.

    def machines(self, selector: Selector = ALL_MACHINES) -> list[MachineRecord]:
        """Return the true records, without lies."""
        return list(selector.machines(self.kit.state))

    def stats(self) -> dict[str, object]:
        """Return counts and all injected faults."""
        state = self.kit.state
        return {
            "machines": {state.label: count for state, count in state.table.counts.items()},
            "revision": state.head,
            "working": self.kit.tasks,
            "lives": self.starts,
            "calls": self.events.called,
            "rpcs": dict(sorted(self.events.called_by_rpc.items())),
            "codes": dict(sorted(Counter(call.code or "RUNNING" for call in self.events.calls).items())),
            "lies": self.active_lies.shares,
            **self.faults.as_dict(),
        }

    def calls(self, *, rpc: str = "", machine_id: str = "", last: int = 0) -> list[SeenCall]:
        """Return the received calls, the oldest first."""
        found = [
            call
            for call in self.events.calls
            if rpc in ("", call.rpc) and machine_id in ("", call.machine_id)
        ]
        return found[-last:] if last else found

    def log(self) -> str:
        """Return the event log, one JSON object per line."""
        return self.events.text

    # Operations.

    def fail_next(
        self,
        machine_id: str = "",
        kind: str = "",
        *,
        times: int = 1,
        message: str = "injected failure",
        how: FailureMode = FailureMode.FAIL,
    ) -> None:
        """Let the next operations of a machine, a kind or both fail after they were accepted."""
        if kind:
            known(kind, STEPS, "kind")
        if times < 1:
            raise InvalidFieldError("times", times, "1 or more")
        self._note("fail-next", id=machine_id, kind=kind, times=times, how=how.value)
        self.faults.next.append(PlannedFault(OperationFault(how, message), machine_id, kind, times))

    async def fail(self, selector: Selector, reason: str = FORCED) -> list[str]:
        """Fail machines at once, in whatever state; return those that failed."""
        self._note("fail", reason=reason)
        ids = selector.ids(self.kit.state)
        return [machine_id for machine_id in ids if await self.kit.report_event(Lost(machine_id, reason))]

    def hold(self, machine_id: str = "", kind: str = "") -> None:
        """Block operations before they end."""
        if kind:
            known(kind, STEPS, "kind")
        if not machine_id and not kind:
            raise InvalidFieldError("hold", "nothing", "a machine's id, a kind, or both")
        self._note("hold", id=machine_id, kind=kind)
        self.faults.hold(machine_id, kind)

    def release(self, machine_id: str = "", kind: str = "") -> int:
        """Unblock operations, all of them without arguments; return how many holds ended."""
        self._note("release", id=machine_id, kind=kind)
        return self.faults.release(machine_id, kind)

    def joining(self, cluster: str = "") -> list[JoiningNode]:
        """Return the machines that wait for their nodes, with their blobs, the oldest first."""
        return [joining for joining in self.nodes.joining if cluster in ("", joining.cluster)]

    def joined(self, machine_id: str) -> bool:
        """Report that the node of a machine is Ready in its cluster; False when the machine does not wait for it."""
        self._known("joined", machine_id)
        return self.nodes.joined(machine_id)

    def emptied(self, machine_id: str) -> None:
        """Report that the node of a draining machine is empty (`testing#drain-until-empty`)."""
        self._known("emptied", machine_id)
        self.nodes.emptied(machine_id)

    def latency(self, kind: str, spec: str) -> None:
        """Set how long a step or a call takes from now on."""
        known(kind, LATENCY_KINDS, "kind")
        self.faults.latencies[kind] = parse_latency(spec, "spec")
        self._note("latency", kind=kind, spec=spec)

    def stockout(
        self,
        instance_type: str = ANY,
        zone: str = ANY,
        *,
        capacity_type: str = ANY,
        seconds: float = 0.0,
        over: bool = False,
    ) -> None:
        """Begin a stock-out of an offering, with or without an end; `over` ends every stock-out that it covers."""
        known(capacity_type, CAPACITY_TYPES, "capacity_type")
        place = {"type": instance_type, "zone": zone, "capacity_type": capacity_type}
        self._note("stockout", **place, seconds=seconds, over=over)
        if over:
            self.faults.stockouts = [
                row for row in self.faults.stockouts if not _covers(row, instance_type, zone, capacity_type)
            ]
        else:
            now_s = self.events.now_s()
            end_s = now_s + seconds if seconds else None
            self.faults.stockouts.append(StockoutWindow(instance_type, zone, now_s, end_s, capacity_type))

    # Machines.

    async def price(
        self, selector: Selector, *, price: float | None = None, probability: float | None = None
    ) -> int:
        """Change price and interruption probability of machines; return how many changed."""
        self._note("price", price=price, probability=probability)
        changed = 0
        for machine_id in selector.ids(self.kit.state):
            changed += await self.kit.report_event(Priced(machine_id, price, probability))
        return changed

    async def add(self, pools: Iterable[Pool]) -> int:
        """Add machines; return how many were new."""
        slots = list(slots_of(pools))
        self._note("add", machines=len(slots))
        return await self.add_slots(slots)

    async def remove(self, machine_id: str, *, without_trace: bool = False) -> bool:
        """Remove a machine, bound or not; it leaves a tombstone unless `without_trace` is set."""
        self._note("remove", id=machine_id, without_trace=without_trace)
        if without_trace:
            self.service.hide(machine_id)
            return self.kit.machine(machine_id) is not None
        return await self.kit.report_event(Lost(machine_id, REMOVED, gone=True))

    async def shed(self, fraction: float) -> int:
        """Remove a share of the Speculative slots; return how many."""
        if not 0 <= fraction <= 1:
            raise InvalidFieldError("fraction", fraction, "a number from 0 to 1")
        ids = sorted(Selector(states=(MachineState.SPECULATIVE,)).ids(self.kit.state))
        self._note("shed", fraction=fraction, of=len(ids))
        chosen = self._rng.stream("shed").sample(ids, round(len(ids) * fraction))
        gone = [await self.kit.report_event(Lost(machine_id, "shed", gone=True)) for machine_id in chosen]
        return sum(gone)

    async def repair(self, machine_id: str, to: MachineState) -> None:
        """Repair a Failed machine, as an operator would."""
        await self.kit.repair(machine_id, to, "fake control")

    async def reset_marks(self, shard_id: str, epoch: int) -> int:
        """Lower the fence marks of a shard above an epoch, as an operator would; return how many there were."""
        return await self.kit.reset_marks(shard_id, epoch, "fake control")

    # Calls.

    def lie(self, name: str, share: float | None = None) -> None:
        self.active_lies.tell(name, share)
        self._note("lie", name=name, share=self.active_lies.shares[name])

    def honest(self, name: str = "") -> None:
        """Turn off one lie, or all of them."""
        self._note("honest", name=name)
        self.active_lies.stop(name)

    def pause_rpc(self, rpc: str, seconds: float) -> None:
        self._note("pause-rpc", rpc=rpc, seconds=seconds)
        self.faults.pause(rpc_named(rpc), seconds)

    def refuse(
        self,
        rpc: str = ANY,
        *,
        code: Code = Code.INTERNAL,
        message: str = "injected refusal",
        probability: float = 1.0,
        times: int | None = None,
        seconds: float | None = None,
    ) -> None:
        """Refuse calls without effect: so many, for so long, or until `reset`."""
        self._add_call_fault(
            CallFault(CallFaultKind.REFUSE, rpc, probability, times, code=code, message=message), seconds
        )

    def lose_answer(
        self,
        rpc: str = ANY,
        *,
        probability: float = 1.0,
        times: int | None = None,
        seconds: float | None = None,
    ) -> None:
        """Carry out calls and never answer them."""
        self._add_call_fault(CallFault(CallFaultKind.LOSE_ANSWER, rpc, probability, times), seconds)

    def reset_during(
        self,
        rpc: str = ANY,
        *,
        probability: float = 1.0,
        times: int | None = None,
        seconds: float | None = None,
    ) -> None:
        """Carry out calls and break every connection instead of answering."""
        self._add_call_fault(CallFault(CallFaultKind.RESET, rpc, probability, times), seconds)

    async def call(
        self,
        rpc: str,
        machine_id: str,
        token: FencingToken = NO_TOKEN,
        *,
        cluster: str = "",
        grace_s: int = 0,
    ) -> tuple[Code, str]:
        """Make a mutating call on behalf of another shard; return the code, and operation id or refusal."""
        kind = OperationKind(known(rpc.lower(), [kind.value for kind in OperationKind], "rpc"))
        fields: dict[str, Any] = {  # Any: texts and numbers, as the message has them
            "machine_id": machine_id,
            "shard_id": token.shard_id,
            "shard_epoch": token.epoch,
            "sequence_number": token.sequence,
            **({"cluster_id": cluster} if kind is OperationKind.CONFIGURE else {}),
            **({"grace_period_seconds": grace_s} if kind is OperationKind.DRAIN else {}),
        }
        shard = Identity.shard(token.shard_id) if token.shard_id else None
        here = InsideCall(f"/{SERVICE}/{kind.call}", shard)
        handle: Handler = getattr(self.service, kind.value)
        try:
            answer = await handle(_REQUESTS[kind](**fields), here)
        except RpcRefusedError as error:
            return error.code, error.detail
        return Code.OK, pb.TransitionAck.FromString(answer).operation_id

    # Everything.

    async def restart(self, *, forget: bool = False) -> None:
        """End as a killed process would and start again, on the state or, with `forget`, on an empty one."""
        self._note("restart", forget=forget)
        await self.restart_kit(forget=forget)

    async def reset(self) -> None:
        """Start again with an empty state, the machines of the seeds, and the faults of the options."""
        self._note("reset")
        self.faults.clear()
        self.active_lies.stop()
        await self.restart_kit(forget=True)
        for name, share in self.options.lies.items():
            self.active_lies.tell(name, share)

    def _add_call_fault(self, planned: CallFault, seconds: float | None) -> None:
        planned.rpc = rpc_named(planned.rpc)
        planned.from_s = self.events.now_s()
        planned.to_s = None if seconds is None else planned.from_s + seconds
        self._note(
            planned.what.value,
            rpc=planned.rpc,
            probability=planned.probability,
            times=planned.times,
            seconds=seconds,
            code=planned.code.name,
        )
        self.faults.add_call_fault(planned)

    def _known(self, verb: str, machine_id: str) -> None:
        if self.kit.machine(machine_id) is None:
            raise NoSuchMachineError(verb, machine_id, "no such machine")
        self._note(verb, id=machine_id)

    def _note(self, verb: str, **fields: object) -> None:
        self.events.add("verb", verb=verb, **fields)


def _covers(row: StockoutWindow, instance_type: str, zone: str, capacity_type: str) -> bool:
    return (
        instance_type in (ANY, row.instance_type)
        and zone in (ANY, row.zone)
        and capacity_type in (ANY, row.capacity_type)
    )
