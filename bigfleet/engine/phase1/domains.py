"""Which domain a gang gathers in: supply per domain, and the total order that picks one.

Why: machines of a gang must share one value of the Same key, so one value has to be chosen, and the choice must not
hang on the order in which domains are met.
Called by: the pre-pass.
Must never: decide a tie by floating-point sums. Floats only sort out who is clearly behind.
Rules: decision-engine 7.3, 7.4 and 10.3.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bigfleet.engine.amounts import Vector, all_of
from bigfleet.engine.index import Numbers
from bigfleet.model.decision import CANDIDATE_LIMIT, DomainCoverage

NO_DOMAIN = -1
_SAFE_TO_SCALE = 2**52  # times a thousand this still fits into 64 bits
_NEAR = 1e-9  # far more than the rounding of a handful of ratios, far less than any real difference


@dataclass(slots=True)
class DomainSupply:
    """What each domain holds for one gang; a row per value of the key, values in text order."""

    count: NDArray[np.int64]
    total: Vector
    creditable: Vector
    own: Vector


def choose_domain(supply: DomainSupply, wanted: Vector) -> int:
    """The domain in which a gang gathers, NO_DOMAIN when no domain holds a machine."""
    among = np.flatnonzero(supply.count > 0)
    if not among.size:
        return NO_DOMAIN
    fits = satisfiable(supply, wanted)[among]
    if fits.any():
        among = among[fits]
        among = _most(among, np.minimum(supply.creditable[among], wanted), wanted)
        among = _most(among, np.minimum(supply.own[among], wanted), wanted)
        among = _most(among, -supply.total[among], wanted)  # the tightest fit
    else:
        among = _most(among, np.minimum(supply.total[among], wanted), wanted)
        among = _most(among, np.minimum(supply.creditable[among], wanted), wanted)
    counts = supply.count[among]
    return int(among[counts == counts.max()][0])


def satisfiable(supply: DomainSupply, wanted: Vector) -> NDArray[np.bool_]:
    """For each domain whether it could hold the whole gang."""
    return all_of(supply.total >= wanted)


def _most(among: Numbers, amounts: Vector, wanted: Vector) -> Numbers:
    """Those domains whose sum of amount / wanted over the wanted dimensions is largest, compared exactly."""
    dimensions = np.flatnonzero(wanted > 0)
    if among.size == 1 or not dimensions.size:
        return among
    parts = wanted[dimensions]
    sums = (amounts[:, dimensions].astype(float) / parts.astype(float)).sum(axis=1)
    near = np.flatnonzero(sums >= sums.max() - _NEAR * max(1.0, abs(float(sums.max()))))
    if near.size > 1:
        product = 1
        for part in parts.tolist():
            product *= int(part)
        weights = [product // int(part) for part in parts.tolist()]
        exact = [
            sum(int(amount) * weight for amount, weight in zip(row, weights, strict=True))
            for row in amounts[near][:, dimensions].tolist()
        ]
        best = max(exact)
        near = near[[value == best for value in exact]]
    return among[near]


def candidates(supply: DomainSupply, wanted: Vector, values: Sequence[str]) -> tuple[DomainCoverage, ...]:
    """The domains that could hold most of the gang, best first, for people to see."""
    among = np.flatnonzero(supply.count > 0)
    dimensions = np.flatnonzero(wanted > 0)
    parts = wanted[dimensions]
    held = np.minimum(supply.total[among][:, dimensions], parts)
    if parts.size and int(parts.max()) > _SAFE_TO_SCALE:
        held, parts = held.astype(object), parts.astype(object)
    shares = (held * 1000 // parts).min(axis=1) if parts.size else np.full(among.size, 1000)
    best = np.lexsort((among, -shares.astype(np.int64)))[:CANDIDATE_LIMIT]
    fits = satisfiable(supply, wanted)
    return tuple(
        DomainCoverage(values[domain], int(share), bool(fits[domain]))
        for domain, share in zip(among[best].tolist(), shares[best].tolist(), strict=True)
    )
