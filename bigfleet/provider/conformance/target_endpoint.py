"""One endpoint under test, and what the kit has done to its machines so far.

Why: machines are taken in a fixed order and given back after each behaviour; who was used how often, and who could not be
given back, outlives a behaviour.
Must never: take a machine that the pattern does not allow, or leave the choice to the provider's list order.
Rules: `providers#trap-distinct-slots`, `providers#trap-clean-up`, `providers#trap-no-slots`,
`providers#conformance-determinism`.
"""

from collections import Counter
from dataclasses import dataclass

from bigfleet.provider.conformance.caller import Caller
from bigfleet.provider.conformance.calls import CallLog
from bigfleet.provider.conformance.checks import listed
from bigfleet.provider.conformance.errors import LaunchError, NoMachineError
from bigfleet.provider.conformance.settings import Launcher, RunSettings, StartedProvider
from bigfleet.provider.conformance.states import I, S, State, state_name


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What the probe found out on one throw-away machine."""

    cursor: bool
    delete: bool


class TargetEndpoint:
    """An endpoint with the history of the kit's own use of it."""

    def __init__(
        self,
        target: str,
        settings: RunSettings,
        *,
        running: StartedProvider | None = None,
        launcher: Launcher | None = None,
        state: str = "",
        seed_count: int = 0,
        disposable: bool = False,
    ) -> None:
        self.target, self.settings, self.running = target, settings, running
        self.disposable = disposable
        """Whether the endpoint ends with its behaviour, so that nothing needs to be given back."""
        self._launcher, self._state, self.seed_count = launcher, state, seed_count
        self.probed = False
        self.capabilities: Capabilities | None = None
        """What the probe found; None where it found no machine to try."""
        self.leftovers: dict[str, str] = {}
        """Machines that could not be given back, and how they were found last."""
        self._uses: Counter[str] = Counter()
        self._held: set[str] = set()

    @classmethod
    async def launched(
        cls,
        launcher: Launcher,
        state: str,
        seed_count: int,
        settings: RunSettings,
        *,
        disposable: bool = False,
    ) -> "TargetEndpoint":
        """Start a process and return the bench around it."""
        running = await launcher.start(state, seed_count)
        return cls(
            running.target,
            settings,
            running=running,
            launcher=launcher,
            state=state,
            seed_count=seed_count,
            disposable=disposable,
        )

    @property
    def start_state(self) -> State:
        """The state from which walks begin."""
        return I if self.settings.bare_metal else S

    @property
    def touched(self) -> tuple[str, ...]:
        """Every machine the kit has worked on here, sorted."""
        return tuple(sorted(self._uses))

    def connect(self, log: CallLog) -> Caller:
        """Return a connection of its own, whose calls go to this log."""
        return Caller(self.settings.net.dial(self.target), log, self.settings.timings.call_s)

    async def take(
        self, calls: Caller, count: int, state: State, label: tuple[str, str] | None = None
    ) -> list[str]:
        """Take machines in a state: those used least often first, then by id; `label` asks for one more property."""
        listing = listed(await calls.list(), "List all")
        free = [
            machine.id
            for machine in listing.machines
            if machine.state == state
            and machine.id not in self._held
            and machine.id not in self.leftovers
            and self.settings.may_touch(machine.id)
            and (label is None or machine.labels.get(label[0]) == label[1])
            and (label is not None or not any(key.startswith("conformance.fault/") for key in machine.labels))
        ]
        if len(free) < count:
            raise NoMachineError(count, len(free), state_name(state), self.settings.machines)
        chosen = sorted(free, key=lambda machine_id: (self._uses[machine_id], machine_id))[:count]
        self._uses.update(chosen)
        self._held.update(chosen)
        return chosen

    def release(self, machine_id: str, problem: str = "") -> None:
        """Give a machine back to the pool, or note why it cannot be used again."""
        self._held.discard(machine_id)
        if problem:
            self.leftovers[machine_id] = problem

    async def kill(self) -> None:
        """Kill the process that the kit owns."""
        if self.running is None:
            raise LaunchError(f"{self.target} is not a process of the kit")
        await self.running.kill()

    async def relaunch(self) -> None:
        """Start a fresh process on what the killed one left behind."""
        if self._launcher is None:
            raise LaunchError(f"{self.target} is not a process of the kit")
        self.running = await self._launcher.start(self._state, self.seed_count)
        self.target = self.running.target

    async def close(self) -> None:
        """End the process, if it is the kit's own."""
        if self.running is not None:
            await self.running.kill()
            self.running = None
