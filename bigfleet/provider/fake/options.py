"""The options of a fake provider.
Rules: `providers#fake-flags`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bigfleet.aio.net import PROVIDER_MAX_MESSAGE_BYTES
from bigfleet.model.errors import InvalidFieldError
from bigfleet.provider.contract import MAX_EPOCH_STEP
from bigfleet.provider.fake.latency import Latency
from bigfleet.provider.fake.lies.lie import checked_share
from bigfleet.provider.fake.lies.registry import lie_named
from bigfleet.provider.fake.specs import CURSORS, LATENCY_KINDS, STEPS, FailureRate, StockoutWindow, known
from bigfleet.provider.kit.limits import Limits, Timeouts, minutes

_MANY_WORKERS = 1_000_000
_NEVER_MISSED = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeOptions:
    """The settings with which one fake provider starts."""

    name: str = "fake"
    """The provider name in every host reference."""
    seed: int = 1
    sync: bool = False
    latencies: Mapping[str, Latency] = field(default_factory=dict)
    failures: Mapping[str, FailureRate] = field(default_factory=dict)
    stockouts: tuple[StockoutWindow, ...] = ()
    loss_per_hour: float = 0.0
    use_declared_loss: bool = False
    offer_delete: bool = True
    cursor: str = "honest"
    time_scale: float = 1.0
    lies: Mapping[str, float] = field(default_factory=dict)
    configure_until_joined: bool = False
    drain_until_empty: bool = False
    timeouts: Timeouts = field(default_factory=Timeouts)
    tombstone_retention_s: float = 24 * minutes(60)
    max_message_bytes: int = PROVIDER_MAX_MESSAGE_BYTES
    reflection: bool = True
    require_fencing: bool | None = None
    require_shard_san: bool | None = None
    max_epoch_step: int = MAX_EPOCH_STEP

    def __post_init__(self) -> None:
        for kind in self.latencies:
            known(kind, LATENCY_KINDS, "latency")
        for kind in self.failures:
            known(kind, STEPS, "fail")
        known(self.cursor, CURSORS, "cursor")
        for name, share in self.lies.items():
            checked_share(lie_named(name), share)
        if not self.time_scale > 0:
            raise InvalidFieldError("time_scale", self.time_scale, "a number above 0")
        if not self.loss_per_hour >= 0:
            raise InvalidFieldError("loss_per_hour", self.loss_per_hour, "0 or more")

    def limits(self) -> Limits:
        times = self.timeouts
        return Limits(
            create=times.create,
            configure=times.configure,
            drain=times.drain,
            delete=times.delete,
            workers=_MANY_WORKERS,  # nearly all of them only sleep
            refresh=0.0,  # machines change only by verbs
            missing_answers=_NEVER_MISSED,  # so that `describe` may yield new machines only
            tombstone_retention=self.tombstone_retention_s,
            max_message_bytes=self.max_message_bytes,
            max_epoch_step=self.max_epoch_step,
        )
