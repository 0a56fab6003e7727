"""Which domain a gang gathers in: supply per domain, and the total order that picks one.

Why: machines of a gang must share one value of the Same key, so one value has to be chosen, and the choice must not
depend on the order in which domains are met.
Must never: decide a tie by floating-point sums. Floats only sort out who is clearly behind.
Rules: `engine#gang-supply`, `engine#domain-order`, `engine#verdicts`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from bigfleet.engine.amounts import Matrix, Vector, all_of
from bigfleet.engine.key_values import Numbers
from bigfleet.model.decision import CANDIDATE_LIMIT, DomainCoverage

NO_DOMAIN = -1
_SAFE = 2**62
_SAFE_TO_SCALE = 2**52  # times a thousand this still fits into 64 bits
_NEAR = 1e-9  # far more than the rounding of a handful of ratios, far less than any real difference


@dataclass(frozen=True, slots=True)
class Supply:
    """Machines added up by domain; a row per value of the key, values in text order."""

    count: NDArray[np.int64]
    total: Matrix


@dataclass(frozen=True, slots=True)
class DomainSupply:
    """What each domain holds for one gang: all of it, what is its cluster's already, what was obtained for it."""

    count: NDArray[np.int64]
    total: Matrix
    creditable: Matrix
    own: Matrix

    def with_shared(self, shared: Supply) -> "DomainSupply":
        """The same with machines that may be acquired."""
        return DomainSupply(self.count + shared.count, self.total + shared.total, self.creditable, self.own)


def choose_domain(supply: DomainSupply, wanted: Vector) -> int:
    """The domain in which a gang gathers, NO_DOMAIN when no domain holds a machine."""
    among = np.flatnonzero(supply.count > 0)
    if among.size <= 1:
        return int(among[0]) if among.size else NO_DOMAIN
    goal = np.array(wanted, dtype=supply.total.dtype)
    fits = all_of(supply.total[among] >= goal)
    if fits.any():
        among = among[fits]
        among = _most_covered(among, supply.creditable, goal, wanted)
        among = _most_covered(among, supply.own, goal, wanted)
        among = _most(among, -supply.total[among], wanted)  # the tightest fit
    else:
        among = _most_covered(among, supply.total, goal, wanted)
        among = _most_covered(among, supply.creditable, goal, wanted)
    if among.size == 1:
        return int(among[0])
    counts = supply.count[among]
    return int(among[counts == counts.max()][0])


def covers(total: Matrix, wanted: Vector) -> bool:
    """Whether one domain could hold the whole gang."""
    return all(held >= amount for held, amount in zip(total.tolist(), wanted, strict=True))


def satisfiable(supply: DomainSupply, wanted: Vector) -> NDArray[np.bool_]:
    """For each domain whether it could hold the whole gang."""
    return all_of(supply.total >= np.array(wanted, dtype=supply.total.dtype))


def _most_covered(among: Numbers, held: Matrix, goal: Matrix, wanted: Vector) -> Numbers:
    """Those domains that cover most of what is wanted; one that holds nothing is behind all that hold something."""
    if among.size == 1:
        return among
    amounts = np.minimum(held[among], goal)
    something = np.logical_or.reduce(amounts, axis=1, dtype=np.bool_)
    count = np.count_nonzero(something)
    if not count:
        return among
    if count < among.size:
        among, amounts = among[something], amounts[something]
    return _most(among, amounts, wanted)


def _most(among: Numbers, amounts: Matrix, wanted: Vector) -> Numbers:
    """Those domains whose sum of amount / wanted over the wanted dimensions is largest, compared exactly."""
    dimensions = [place for place, amount in enumerate(wanted) if amount > 0]
    if among.size == 1 or not dimensions:
        return among
    parts = [wanted[place] for place in dimensions]
    sums = (amounts[:, dimensions].astype(float) / np.array(parts, dtype=float)).sum(axis=1)
    near = np.flatnonzero(sums >= sums.max() - _NEAR * max(1.0, abs(float(sums.max()))))
    if near.size > 1:
        near = near[_largest(amounts[near][:, dimensions], parts)]
    return among[near]


def _largest(amounts: Matrix, parts: list[int]) -> NDArray[np.bool_]:
    """The rows whose sum of amount / part is largest, as whole numbers: all is multiplied by the product of the parts."""
    product = prod(parts)
    weights = [product // part for part in parts]
    if amounts.dtype != object and max(1, int(np.abs(amounts).max())) * sum(weights) < _SAFE:
        exact = amounts @ np.array(weights, dtype=np.int64)
    else:
        exact = np.array(
            [sum(int(a) * w for a, w in zip(row, weights, strict=True)) for row in amounts.tolist()],
            dtype=object,
        )
    best: NDArray[np.bool_] = exact == exact.max()
    return best


def candidates(supply: DomainSupply, wanted: Vector, values: Sequence[str]) -> tuple[DomainCoverage, ...]:
    """The domains that could hold most of the gang, best first, for display."""
    among = np.flatnonzero(supply.count > 0)
    dimensions = [place for place, amount in enumerate(wanted) if amount > 0]
    dtype = object if max(wanted, default=0) > _SAFE_TO_SCALE else supply.total.dtype
    parts = np.array([wanted[place] for place in dimensions], dtype=dtype)
    held = np.minimum(supply.total[among][:, dimensions].astype(dtype), parts)
    shares = (held * 1000 // parts).min(axis=1) if parts.size else np.full(among.size, 1000)
    best = np.lexsort((among, -shares.astype(np.int64)))[:CANDIDATE_LIMIT]
    fits = satisfiable(supply, wanted)
    return tuple(
        DomainCoverage(values[domain], int(share), bool(fits[domain]))
        for domain, share in zip(among[best].tolist(), shares[best].tolist(), strict=True)
    )
