"""How to land a write: only what differs, again after a conflict, and with patience when the server is in trouble.

Why: a full update under load conflicts one time in four (operator 6.3 rule 4), the client library never repeats a patch, and
a state frame that is dropped on an error is lost for good, as the shard does not send it again.
Must never: repeat a refusal that waiting does not heal, or swallow a cancellation.
Rules: operator 6.3 rules 2, 4, 5, 12 and 13; 7.1; 4.8.
"""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from bigfleet.aio.backoff import Backoff, BackoffPolicy
from bigfleet.aio.clock import Clock
from bigfleet.aio.rng import RandomStream
from bigfleet.kube.client import KubeClient
from bigfleet.kube.errors import ConflictError, KubeError
from bigfleet.kube.limiter import Urgency
from bigfleet.kube.link import Document
from bigfleet.kube.merge_patch import Same, difference, exactly
from bigfleet.kube.resources import ObjectKey, Resource

R = TypeVar("R")

CONFLICT_TRIES: Final = 5
CONFLICT_WAIT_S: Final = 0.01
LANDING: Final = BackoffPolicy(first_s=0.2, ceiling_s=10.0)


async def patch_difference(
    client: KubeClient,
    resource: Resource,
    key: ObjectKey,
    stored: Document,
    wanted: Document,
    *,
    same: Same = exactly,
    subresource: str = "",
    resource_version: str = "",
    urgency: Urgency = Urgency.NORMAL,
) -> Document | None:
    """Send what differs between two documents of equal shape, such as `{"spec": ...}`; None when nothing does.

    Both sides must be limited to the part that this writer owns: what the stored one has and the wanted one lacks is removed.
    With a version the write happens only if the object has not moved on since; else ConflictError.
    """
    patch = difference(stored, wanted, same)
    if not patch:
        return None
    if resource_version:
        patch["metadata"] = {**patch.get("metadata", {}), "resourceVersion": resource_version}
    return await client.merge_patch(resource, key, patch, subresource=subresource, urgency=urgency)


async def retry_on_conflict(
    attempt: Callable[[], Awaitable[R]],
    *,
    clock: Clock,
    stream: RandomStream,
    tries: int = CONFLICT_TRIES,
) -> R:
    """Make the attempt again, from reading on, while it ends in a conflict; the last conflict is raised."""
    for _ in range(tries - 1):
        try:
            return await attempt()
        except ConflictError:
            await clock.sleep(CONFLICT_WAIT_S * (1 + 0.1 * stream.random()))
    return await attempt()


async def until_landed(
    attempt: Callable[[], Awaitable[R]],
    *,
    clock: Clock,
    stream: RandomStream,
    is_stale: Callable[[], bool] = lambda: False,
    on_failure: Callable[[KubeError, float], None] = lambda _error, _wait_s: None,
    also: tuple[type[KubeError], ...] = (),
    policy: BackoffPolicy = LANDING,
) -> R | None:
    """Make the attempt until it succeeds; None once it is stale, as something newer will write instead.

    Conflicts and passing errors are waited out, and those of the types in `also`; any other refusal is raised.
    """
    backoff = Backoff(stream, policy)
    while True:
        try:
            return await retry_on_conflict(attempt, clock=clock, stream=stream)
        except KubeError as error:
            if not (error.passing or isinstance(error, (ConflictError, *also))):
                raise
            wait_s = max(backoff.next_s(), min(error.retry_after_s or 0.0, policy.ceiling_s))
            on_failure(error, wait_s)
        if is_stale():
            return None
        await clock.sleep(wait_s)
        if is_stale():
            return None
