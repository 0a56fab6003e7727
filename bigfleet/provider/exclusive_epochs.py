"""The gRPC metadata with which a shard announces that its epochs are exclusive, as client and server name it.

Why: a shard that was paused can wake up after its successor has started. The marks per machine stop it only where the successor
has called already; a provider that knows that a higher epoch ends the lower ones stops it on every machine. Reads carry no
token, so they name shard and epoch here: the successor's first listing is enough.
Must never: be required of a caller, or turn metadata that cannot be read into an error.
Rules: `wire#exclusive-epochs`, `providers#epoch-per-shard`.
"""

from typing import Final

from bigfleet.aio.net import Metadata
from bigfleet.provider.contract import INT64_MAX, MAX_ID_BYTES

FENCE_KEY: Final = "bigfleet-fence"
EXCLUSIVE: Final = "shard-epoch"
SHARD_KEY: Final = "bigfleet-fence-shard-bin"
EPOCH_KEY: Final = "bigfleet-fence-epoch"
_MOST_DIGITS: Final = 19

ANNOUNCED: Final[Metadata] = ((FENCE_KEY, EXCLUSIVE),)
"""For a mutating call, whose token names shard and epoch."""


def announcement(shard_id: str, epoch: int) -> Metadata:
    """Return the metadata of a call without a token."""
    return (*ANNOUNCED, (SHARD_KEY, shard_id.encode()), (EPOCH_KEY, str(epoch)))


def is_announced(metadata: Metadata) -> bool:
    """Return whether the caller says that its epochs are exclusive."""
    return dict(metadata).get(FENCE_KEY) == EXCLUSIVE


def announced_epoch(metadata: Metadata) -> tuple[str, int] | None:
    """Return shard and epoch that a read announces, None if it announces none that can be read."""
    if not is_announced(metadata):
        return None
    found = dict(metadata)
    shard, epoch = found.get(SHARD_KEY), found.get(EPOCH_KEY)
    if not isinstance(shard, bytes) or not isinstance(epoch, str):
        return None
    if not 0 < len(shard) <= MAX_ID_BYTES or not 0 < len(epoch) <= _MOST_DIGITS:
        return None
    if not epoch.isascii() or not epoch.isdigit() or int(epoch) > INT64_MAX:
        return None
    try:
        return shard.decode(), int(epoch)
    except UnicodeDecodeError:
        return None
