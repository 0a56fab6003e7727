"""The batch: the text of one log entry, `{"v":1,"epoch":…,"items":[commands]}`. The only encoder and decoder.

Why: one replica writes what every other replica, of this version or the next, has to read.
Must never: change the bytes of a batch; journals of older versions are read again at every start.
Rules: `coordinator#commands`, `coordinator#command-levels`.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from bigfleet.model.errors import BigFleetError

BATCH_VERSION: Final = 1
MAX_COMMANDS: Final = 256
MAX_BATCH_BYTES: Final = 256 * 1024
FRAME_BYTES: Final = 64  # version, epoch and brackets around the commands

_PREFIX: Final = f'{{"v":{BATCH_VERSION},'
_encode: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
_encode_ascii: Final = json.JSONEncoder(separators=(",", ":")).encode


class BadBatchError(BigFleetError):
    """A text is not a batch of this version."""


class DecodedBatch(NamedTuple):
    """A batch as it was read; its commands are not checked yet."""

    epoch: int
    items: list[object]


def encode_command(command: Mapping[str, Any], *, ascii_only: bool = False) -> str:
    """Return one command as text."""
    return _encode_ascii(command) if ascii_only else _encode(command)


def encode_batch(epoch: int, commands: Iterable[str]) -> str:
    """Return the batch of these encoded commands."""
    return f'{_PREFIX}"epoch":{epoch},"items":[{",".join(commands)}]}}'


def decode_batch(text: str) -> DecodedBatch:
    """Read a batch; raises `BadBatchError`."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadBatchError(f"batch: {type(error).__name__}, allowed is JSON") from error
    if not isinstance(document, dict):
        raise BadBatchError("batch: found no object, allowed is an object with v, epoch and items")
    version, epoch, items = document.get("v"), document.get("epoch"), document.get("items")
    if type(version) is not int or version != BATCH_VERSION:
        raise BadBatchError(f"v: found {ascii(version)[:80]}, allowed is {BATCH_VERSION}")
    if type(epoch) is not int:
        raise BadBatchError(f"epoch: found {ascii(epoch)[:80]}, allowed is a whole number")
    if not isinstance(items, list) or not 1 <= len(items) <= MAX_COMMANDS:
        raise BadBatchError(f"items: allowed is a list of 1 to {MAX_COMMANDS} commands")
    return DecodedBatch(epoch, items)


def newer_version(text: str) -> int | None:
    """Return the version of a batch that only a newer BigFleet can read; None for any other text."""
    if text.startswith(_PREFIX):
        return None
    try:
        version = json.loads(text)["v"]
    except (ValueError, KeyError, TypeError):
        return None
    return version if isinstance(version, int) and version > BATCH_VERSION else None
