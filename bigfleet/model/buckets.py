"""Penalty buckets: dollar amounts rounded up to powers of two, so that demand of many clusters aggregates.

Why: two clusters that say $7 and $8 mean the same; without buckets every amount would be a separate profile.
Rules: `engine#penalty-buckets`. Ordinals are the wire's numbers and are ordered like dollars.
"""

import math
from bisect import bisect_left
from typing import NewType

from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.quantity import NANO

PenaltyBucket = NewType("PenaltyBucket", int)

UNSPECIFIED = PenaltyBucket(0)
ZERO_DOLLARS = PenaltyBucket(1)
PINNED = PenaltyBucket(27)

_BOUNDS: tuple[float, ...] = (0.0, 0.0, 0.5, *(float(2**exponent) for exponent in range(24)), math.inf)
_BOUNDS_NANO: tuple[int, ...] = (0, 0, NANO // 2, *(2**exponent * NANO for exponent in range(24)))
ALL_BUCKETS: tuple[PenaltyBucket, ...] = tuple(PenaltyBucket(ordinal) for ordinal in range(len(_BOUNDS)))


def bucket_of(dollars: float) -> PenaltyBucket:
    """Round a dollar amount up to its bucket; NaN is as bad as can be, so it is pinned."""
    if math.isnan(dollars):
        return PINNED
    return PenaltyBucket(bisect_left(_BOUNDS, dollars, lo=int(ZERO_DOLLARS), hi=int(PINNED)))


def bucket_of_nano(nano: int) -> PenaltyBucket:
    """Round an exact amount, in units of 10⁻⁹ dollars, up to its bucket; what is not positive costs nothing."""
    return PenaltyBucket(bisect_left(_BOUNDS_NANO, nano, lo=int(ZERO_DOLLARS), hi=int(PINNED)))


def upper_bound(bucket: PenaltyBucket) -> float:
    """The dollars that a bucket represents; pinned is infinite."""
    return _BOUNDS[bucket]


def checked_bucket(ordinal: int, field: str) -> PenaltyBucket:
    """Accept a number from outside as a bucket, or refuse it by the field's name."""
    if not 0 <= ordinal <= PINNED:
        raise InvalidFieldError(field, ordinal, f"a penalty bucket from 0 to {PINNED}")
    return PenaltyBucket(ordinal)


def label_of(bucket: PenaltyBucket) -> str:
    """The bucket as metrics and tables show it: unspecified, 0, 0.5, 1, 2, … 8388608, pinned."""
    if bucket == UNSPECIFIED:
        return "unspecified"
    return "pinned" if bucket == PINNED else f"{_BOUNDS[bucket]:.16g}"
