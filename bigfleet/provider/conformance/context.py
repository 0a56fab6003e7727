"""What a behaviour works with: calls, machines to work on, walks to a state, waits for a fact.

Why: a behaviour should read like its row of the table; taking, walking, polling and giving back are the same for all.
Must never: sleep without looking for a fact, or hand out the same machine to two behaviours at once.
Rules: `providers#observation`.
"""

from collections.abc import Awaitable, Callable, Mapping

from bigfleet.aio.clock import monotonic_s
from bigfleet.aio.rng import RandomStream, SeededRng
from bigfleet.provider.conformance.caller import Caller, ListReply, MutationReply
from bigfleet.provider.conformance.calls import NO_TOKEN, CallLog, CallToken
from bigfleet.provider.conformance.checks import accepted, fail, in_state, listed, require
from bigfleet.provider.conformance.errors import LaunchError, SkippedError
from bigfleet.provider.conformance.settings import RunSettings, Timings
from bigfleet.provider.conformance.states import C, F, I, S, State, state_name
from bigfleet.provider.conformance.target_endpoint import Capabilities, TargetEndpoint
from bigfleet.v1alpha1 import provider_pb2 as pb


class FenceProbe:
    """One machine on which tokens are tried with a call that is idempotent once it was accepted."""

    def __init__(self, context: "BehaviourContext", machine_id: str) -> None:
        self.machine_id, self._lab = machine_id, context

    async def __call__(self, shard: str, epoch: int, sequence: int) -> MutationReply:
        """Try a token by the machine's first move."""
        return await self._lab.move(self.machine_id, CallToken(shard, epoch, sequence))


class BehaviourContext:
    """The surroundings of one behaviour."""

    def __init__(
        self,
        behaviour_id: str,
        endpoint: TargetEndpoint,
        *,
        poll_s: float,
        run_baseline: Callable[[str], Awaitable[tuple[str, ...]]],
    ) -> None:
        self.endpoint, self.log = endpoint, CallLog()
        self.calls: Caller = endpoint.connect(self.log)
        self.notes: list[str] = []
        self.run_baseline = run_baseline
        """Runs the baseline against another endpoint and returns what failed; for the self-test."""
        self.held: list[str] = []
        self._id, self._poll_s = behaviour_id, poll_s
        self._others: list[Caller] = []

    @property
    def settings(self) -> RunSettings:
        return self.endpoint.settings

    @property
    def timings(self) -> Timings:
        return self.endpoint.settings.timings

    @property
    def bare_metal(self) -> bool:
        return self.endpoint.settings.bare_metal

    @property
    def capabilities(self) -> Capabilities:
        """What the probe found; without a probe nothing optional is assumed."""
        return self.endpoint.capabilities or Capabilities(cursor=False, delete=False)

    # Names and lots, all of them from run id, behaviour and seed.

    def shard(self, name: str = "a") -> str:
        """Return a shard id that no other behaviour and no other run uses."""
        return f"conformance-{self.settings.run_id}-{self._id.lower()}-{name}"

    def ghost(self) -> str:
        """Return a machine id that no provider has."""
        return f"conformance-ghost-{self.settings.run_id}-{self._id.lower()}"

    def cluster(self, name: str = "a") -> str:
        """Return a cluster id."""
        return f"conformance-{self._id.lower()}-{name}"

    def lots(self) -> RandomStream:
        """Return the behaviour's own random stream, from its start."""
        return SeededRng(self.settings.seed).stream(self._id)

    def note(self, text: str) -> None:
        """Add a line to the report that is no failure."""
        self.notes.append(text)

    def now_s(self) -> float:
        return monotonic_s(self.settings.clock)

    async def pause(self, seconds: float) -> None:
        """Let time pass between two looks."""
        await self.settings.clock.sleep(seconds)

    def another_connection(self) -> Caller:
        """Return a second connection to the same endpoint."""
        caller = self.endpoint.connect(self.log)
        self._others.append(caller)
        return caller

    # Machines.

    async def slots(self, count: int) -> list[str]:
        """Take slots: distinct Speculative machines."""
        return await self._take(count, S)

    async def slot(self) -> str:
        return (await self.slots(1))[0]

    async def some_slots(self, most: int) -> list[str]:
        """Take as many slots as there are, at least one."""
        free = sum(
            machine.state == S and self.settings.may_touch(machine.id)
            for machine in (await self.all()).machines
        )
        return await self.slots(max(min(most, free - len(self.endpoint.leftovers)), 1))

    async def labelled_slot(self, key: str, value: str) -> str:
        """Take a slot that bears a label."""
        taken = await self.endpoint.take(self.calls, 1, S, (key, value))
        self.held.extend(taken)
        return taken[0]

    async def idles(self, count: int) -> list[str]:
        """Take machines and walk them to Idle; on bare metal they are taken there."""
        if self.bare_metal:
            return await self._take(count, I)
        machine_ids = await self.slots(count)
        for machine_id in machine_ids:
            accepted(await self.calls.create(machine_id), "Create of a slot")
        for machine_id in machine_ids:
            await self.settle(machine_id, I)
        return machine_ids

    async def idle(self) -> str:
        return (await self.idles(1))[0]

    async def configured(self, cluster: str | None = None, metadata: Mapping[str, str] | None = None) -> str:
        """Take a machine and walk it to Configured."""
        machine_id = await self.idle()
        await self.bind(machine_id, cluster, metadata)
        return machine_id

    async def bind(
        self, machine_id: str, cluster: str | None = None, metadata: Mapping[str, str] | None = None
    ) -> pb.Machine:
        """Walk an Idle machine to Configured."""
        ack = await self.calls.configure(machine_id, cluster or self.cluster(), metadata=metadata)
        accepted(ack, "Configure of an Idle machine")
        return await self.settle(machine_id, C)

    async def unbind(self, machine_id: str, grace_s: int = 5) -> pb.Machine:
        """Walk a Configured machine back to Idle."""
        accepted(await self.calls.drain(machine_id, grace_s), "Drain of a Configured machine")
        return await self.settle(machine_id, I, max(self.timings.settle_s, grace_s + self.timings.settle_s))

    @property
    def moved(self) -> State:
        """The state that `move` leads to."""
        return C if self.bare_metal else I

    async def movables(self, count: int) -> list[str]:
        """Take machines that can make their first move."""
        return await self._take(count, self.endpoint.start_state)

    async def move(self, machine_id: str, token: CallToken = NO_TOKEN) -> MutationReply:
        """Ask for a machine's first move: Create of a slot, on bare metal Configure of an Idle machine."""
        if self.bare_metal:
            return await self.calls.configure(machine_id, self.cluster(), token)
        return await self.calls.create(machine_id, token)

    async def move_and_settle(self, machine_id: str) -> None:
        """Make a machine's first move."""
        accepted(await self.move(machine_id), "the first move")
        await self.settle(machine_id, self.moved)

    async def fence_probes(self, count: int) -> list[FenceProbe]:
        """Take machines on which tokens can be tried."""
        return [FenceProbe(self, machine_id) for machine_id in await self.movables(count)]

    async def fence_probe(self) -> FenceProbe:
        return (await self.fence_probes(1))[0]

    # Looking.

    async def get(self, machine_id: str) -> pb.Machine:
        """Read one machine that must be there."""
        sight = await self.calls.get(machine_id)
        require(sight.ok, f"Get {machine_id}: found {sight}, due was OK")
        return sight.machine

    async def all(self) -> ListReply:
        """Read everything."""
        return listed(await self.calls.list(), "List all")

    async def settle(self, machine_id: str, state: State, within_s: float | None = None) -> pb.Machine:
        """Wait until a machine is in a state; a machine that failed will not get there."""
        limit_s = self.timings.settle_s if within_s is None else within_s

        def there(machine: pb.Machine) -> bool:
            return self._arrived(machine, state)

        machine = await self.poll(machine_id, limit_s, self._poll_s, there)
        return self._in_time(machine, state, limit_s)

    async def stays(self, machine_id: str, state: State, window_s: float | None = None) -> pb.Machine:
        """Look at a machine over a window and demand that no other state shows."""
        length_s = self.timings.window_s if window_s is None else window_s

        def moved(machine: pb.Machine) -> bool:
            in_state(machine, state, f"within {length_s:g} s")
            return False

        return await self.poll(machine_id, length_s, self._poll_s, moved)

    async def trace(self, machine_id: str, until: State, within_s: float | None = None) -> list[pb.Machine]:
        """Poll as fast as the contract says until a state is reached; equal sights in a row count once."""
        limit_s = self.timings.settle_s if within_s is None else within_s
        seen: list[pb.Machine] = []

        def there(machine: pb.Machine) -> bool:
            if not seen or seen[-1] != machine:
                seen.append(machine)
            return self._arrived(machine, until)

        machine = await self.poll(machine_id, limit_s, self.timings.trace_poll_s, there)
        self._in_time(machine, until, limit_s)
        return seen

    async def poll(
        self, machine_id: str, within_s: float, every_s: float, enough: Callable[[pb.Machine], bool]
    ) -> pb.Machine:
        """Look at a machine, at least once, until enough was seen or the time is up; return the last sight."""
        end_s = self.now_s() + within_s
        while True:
            sight = await self.calls.get(machine_id, poll=True)
            require(sight.ok, f"Get {machine_id}: found {sight}, due was OK")
            if enough(sight.machine) or self.now_s() >= end_s:
                return sight.machine
            await self.pause(every_s)

    @staticmethod
    def _arrived(machine: pb.Machine, state: State) -> bool:
        if machine.state == F and state != F:
            fail(f"{machine.id} became FAILED ({machine.last_error!r}), due was {state_name(state)}")
        return machine.state == state

    @staticmethod
    def _in_time(machine: pb.Machine, state: State, limit_s: float) -> pb.Machine:
        found, due = state_name(machine.state), state_name(state)
        require(machine.state == state, f"{machine.id} is {found} after {limit_s:g} s, due was {due}")
        return machine

    # The kit's own process, and the end.

    async def restart(self) -> None:
        """Kill the process under test and go on with a fresh one on the same state."""
        await self.endpoint.kill()
        await self.calls.close()
        try:
            await self.endpoint.relaunch()
        except LaunchError as error:
            fail(f"after the kill the process does not come up again: {error}")
        self.calls = self.endpoint.connect(self.log)

    def skip(self, reason: str) -> None:
        """End the behaviour as not applicable to this provider."""
        raise SkippedError(reason)

    async def close(self) -> None:
        """Give every connection back."""
        for caller in (*self._others, self.calls):
            await caller.close()

    async def _take(self, count: int, state: State) -> list[str]:
        taken = await self.endpoint.take(self.calls, count, state)
        self.held.extend(taken)
        return taken


def states_of(trace: list[pb.Machine]) -> list[State]:
    """Return the states of a trace, repeats in a row removed."""
    states: list[State] = []
    for machine in trace:
        if not states or states[-1] != machine.state:
            states.append(machine.state)
    return states
