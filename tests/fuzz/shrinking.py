"""Makes an input that shows a finding smaller, for as long as it shows the same one.

Why: libFuzzer hands over the input as it was when it met the finding, most of which has nothing to do with it.
"""

import traceback
from time import process_time
from typing import Final

from tests.fuzz.targets import Target

_CPU_S: Final = 60.0


def smallest(target: Target, data: bytes) -> bytes:
    """Leave out whatever the finding does not need: halves first, then ever smaller pieces."""
    finding, end = _finding(target, data), process_time() + _CPU_S
    piece = len(data) // 2
    while piece and finding:
        at, before = 0, len(data)
        while at < len(data) and process_time() < end:
            shorter = data[:at] + data[at + piece :]
            if _finding(target, shorter) == finding:
                data = shorter
            else:
                at += piece
        if piece == 1 and len(data) < before:
            continue  # what one byte held in place may go now
        piece //= 2
    return data


def _finding(target: Target, data: bytes) -> tuple[type[Exception], str, int | None] | None:
    """Return the kind of error and its line; nothing where the answer is right, or the process did not live to tell."""
    try:
        target.run(data)
    except Exception as error:  # any error but a refusal is a finding, whatever it is
        place = traceback.extract_tb(error.__traceback__)[-1]
        return type(error), place.filename, place.lineno
    return None
