"""Settings of a run: what to test, what to require, how long to wait.

Why: the numbers of the contract stand in one place with the contract's values, and the kit's own self-check can shorten
them without touching a behaviour.
Must never: make a clock, a socket or a process; all of them come in through the fields.
Rules: `providers#observation`, `providers#verdict`, `providers#conformance`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Final, Protocol

from bigfleet.aio.clock import Clock
from bigfleet.aio.net import Net
from bigfleet.model.errors import InvalidFieldError
from bigfleet.provider.conformance.reference.model import ReferenceProvider
from bigfleet.provider.conformance.reference.values import ReferenceOptions


class ConformanceProfile(StrEnum):
    """What a provider claims to be; each profile demands its own behaviours."""

    CORE = "core"
    CLOUD = "cloud"
    SPOT = "spot"
    BARE_METAL = "bare-metal"
    FAULT = "fault"
    DURABLE = "durable"
    SCALE = "scale"


DEFAULT_PROFILES: Final = (ConformanceProfile.CORE, ConformanceProfile.CLOUD, ConformanceProfile.SPOT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """Every wait of the behaviours, in seconds, with the contract's values."""

    call_s: float = 30.0
    poll_s: float = 0.020
    baseline_poll_s: float = 0.100
    trace_poll_s: float = 0.001
    observe_poll_s: float = 0.005
    observe_s: float = 1.0
    """How long A15 and A26 watch."""
    settle_s: float = 15.0
    window_s: float = 0.300
    error_window_s: float = 0.250
    fuzz_window_s: float = 0.080
    cursor_window_s: float = 0.750
    cursor_poll_s: float = 0.050
    transition_timeout_s: float = 2.0
    """Of the endpoint that follows the fault convention."""
    durable_timeout_s: float = 30.0
    """The same, of the one that is killed in the middle of a transition."""
    soak_s: float = 8.0
    storm_s: float = 60.0
    """How long X04 keeps its workers going."""
    clean_up_s: float = 5.0
    """How long one machine may take to be given back before it is left to its owner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSizes:
    """How much of everything, with the contract's values."""

    burst: int = 16
    durable_seed: int = 64
    scale_seed: int = 4000
    storm_workers: int = 32
    storm_machines: int = 64
    kills: int = 20


class StartedProvider(Protocol):
    """A provider process that the kit started and may therefore kill."""

    @property
    def target(self) -> str:
        """Where it listens."""
        ...

    async def kill(self) -> None:
        """End it at once, as SIGKILL does, and wait until it is gone."""
        ...

    async def terminate(self) -> int:
        """Ask it to end, as SIGTERM does, and return its exit code."""
        ...


class Launcher(Protocol):
    """Starts providers under test; `state` names the place that survives a kill, unused places are empty."""

    async def start(self, state: str, seed_count: int) -> StartedProvider: ...


class Substrate(Protocol):
    """What lies below the provider under test, where the kit may reach it."""

    async def reprice(self, machine_id: str) -> None:
        """Change price or probability of a machine."""
        ...

    async def remove(self, machine_id: str) -> None:
        """Take a machine away."""
        ...


@dataclass(frozen=True, slots=True)
class Survey:
    """What a first look at the target found; shown before anything is changed."""

    target: str
    machines: int
    touchable: int
    """Machines in a state the kit starts from, whose id it may touch."""


def _approve(_survey: Survey) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """One run."""

    net: Net
    clock: Clock
    run_id: str
    """Part of every shard id and ghost id of the run: two runs must not meet each other's marks."""
    secured: bool = False
    """Whether the kit calls inside mutual TLS; it then finds out first whether the target admits it."""
    profiles: tuple[ConformanceProfile, ...] = DEFAULT_PROFILES
    seed: int = 1
    only: tuple[str, ...] = ()
    """Patterns of behaviour ids; empty means all that the profiles demand."""
    extra: bool = False
    machines: str = "*"
    """Pattern of machine ids that may be touched."""
    clean_up: bool = True
    timings: Timings = field(default_factory=Timings)
    sizes: RunSizes = field(default_factory=RunSizes)
    launcher: Launcher | None = None
    fault_target: str = ""
    """Endpoint that follows the fault convention; empty means the kit's own."""
    fault_launcher: Launcher | None = None
    """Starts a provider that follows the fault convention, its transition timeout `durable_timeout_s`."""
    substrate: Substrate | None = None
    model: Callable[[Clock, ReferenceOptions], ReferenceProvider] = ReferenceProvider
    """The kit's own provider, for the self-tests."""
    approve: Callable[[Survey], bool] = _approve
    """Asked once, before the first call that changes anything."""
    repeat_flags: tuple[str, ...] = ()
    """Further flags of the command that repeats a failure."""

    def __post_init__(self) -> None:
        if not self.profiles:
            raise InvalidFieldError("profile", "", f"one or more of {', '.join(ConformanceProfile)}")
        if self.bare_metal and ConformanceProfile.CORE in self.profiles:
            raise InvalidFieldError(
                "profile", "core, bare-metal", "one of the two, as they start from different states"
            )

    @property
    def bare_metal(self) -> bool:
        """Return whether walks start at Idle machines because the provider has no slots."""
        return ConformanceProfile.BARE_METAL in self.profiles

    def may_touch(self, machine_id: str) -> bool:
        """Return whether a machine is one of those that the kit was allowed."""
        return fnmatchcase(machine_id, self.machines)
