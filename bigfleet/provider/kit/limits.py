"""The limits and timeouts of one provider, with their defaults.

Rules: `providers#kit`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bigfleet.aio.backoff import BackoffPolicy
from bigfleet.aio.net import PROVIDER_MAX_MESSAGE_BYTES
from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.frozen_map import FrozenMap
from bigfleet.provider.contract import MAX_EPOCH_STEP, OperationKind


def minutes(count: float) -> float:
    """Convert minutes to seconds, the unit of all limits."""
    return count * 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Longest time of one operation in seconds, by kind; a drain gets its grace period on top."""

    create: float = minutes(5)
    configure: float = minutes(5)
    drain: float = minutes(10)
    delete: float = minutes(5)

    def __post_init__(self) -> None:
        for kind in OperationKind:
            if not self.of(kind) > 0:
                raise InvalidFieldError(kind.value, self.of(kind), "a number of seconds above 0")

    def of(self, kind: OperationKind) -> float:
        """Return the timeout of a kind, without the grace period of a drain."""
        seconds: float = getattr(self, kind.value)
        return seconds


NO_OVERRIDES: FrozenMap[Timeouts] = FrozenMap()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits(Timeouts):
    """All limits of the kit; times are in seconds."""

    workers: int = 64
    """Operations that run at once; others wait, and their timeout begins when they run."""
    by_instance_type: Mapping[str, Timeouts] = NO_OVERRIDES
    ready_poll: float = 5.0
    refresh: float = minutes(2)
    """Time between two calls of `describe`; 0 turns refreshing off."""
    missing_answers: int = 3
    """Refreshes in a row that must lack a machine before it becomes a tombstone."""
    tombstone_retention: float = 24 * minutes(60)
    housekeeping: float = minutes(1)
    max_message_bytes: int = PROVIDER_MAX_MESSAGE_BYTES
    max_epoch_step: int = MAX_EPOCH_STEP
    """How far a token may be above the highest epoch known of a shard that announces exclusive epochs."""
    retry: BackoffPolicy = field(default_factory=lambda: BackoffPolicy(first_s=1.0, ceiling_s=30.0))

    def __post_init__(self) -> None:
        # By name: `slots=True` creates a second class, and `super()` without arguments would refer to the first.
        Timeouts.__post_init__(self)
        for name in ("workers", "missing_answers", "max_message_bytes", "max_epoch_step"):
            if getattr(self, name) < 1:
                raise InvalidFieldError(name, getattr(self, name), "1 or more")
        for name in ("ready_poll", "tombstone_retention", "housekeeping"):
            if not getattr(self, name) > 0:
                raise InvalidFieldError(name, getattr(self, name), "a number of seconds above 0")
        if self.refresh < 0:
            raise InvalidFieldError("refresh", self.refresh, "0 or more seconds")

    def timeout(self, kind: OperationKind, instance_type: str) -> float:
        """Return the timeout of an operation on such a machine, without the grace period of a drain."""
        return self.by_instance_type.get(instance_type, self).of(kind)
