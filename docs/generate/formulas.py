"""Generates the formulas and tables of the concepts page from the functions and constants that decide.

Why: the original's pages gave one victim score and its code another; here a formula on the page is the return statement of the
function, in words.
Must never: know a number of its own.
"""

import ast
import inspect
from collections.abc import Callable
from textwrap import dedent
from typing import Final

from bigfleet.model import costs
from bigfleet.model.buckets import ALL_BUCKETS, PINNED, UNSPECIFIED, ZERO_DOLLARS, upper_bound
from bigfleet.model.machine import CapacityType
from bigfleet.model.situation import IdleHolds
from docs.generate.markdown import fill, table

_WORDS: Final = {
    "price_per_hour": "price per hour",
    "interruption_probability": "interruption probability",
    "penalty": "interruption penalty",
    "interruption_penalty": "interruption penalty",
    "reclamation_penalty": "reclamation penalty",
    "grace_hours": "remaining drain grace in hours",
}
_SIGNS: Final = {ast.Add: "+", ast.Mult: "×"}


def filled(page: str) -> str:
    """Return the concepts page with every marked place filled."""
    return fill(page, PARTS)


def in_words(function: Callable[..., float]) -> str:
    """Return what a function returns in the end, as a formula in words."""
    (definition,) = ast.parse(dedent(inspect.getsource(function))).body
    last = definition.body[-1] if isinstance(definition, ast.FunctionDef) else None
    if not isinstance(last, ast.Return) or last.value is None:
        raise TypeError(f"{function.__name__}: does not end in a return, allowed is a formula")
    return _words(last.value)


def _words(node: ast.expr) -> str:
    match node:
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _SIGNS:
            return f"{_words(left)} {_SIGNS[type(sign)]} {_words(right)}"
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in _WORDS:
            return _WORDS[name]
        case ast.Call(func=ast.Name(id="max"), args=[ast.Constant(value=0.0), inner]):
            return _words(inner)  # a penalty below zero counts as none, which the page of buckets says
        case _:
            raise TypeError(f"{ast.unparse(node)}: no words for it")


def _formula(name: str, function: Callable[..., float]) -> str:
    return f"```text\n{name} = {in_words(function)}\n```"


def _drain_grace() -> str:
    rows = [(f"more than {above:,}", _time(grace)) for above, grace in costs.DRAIN_GRACE_BY_GAP]
    rows.append(("otherwise", _time(costs.drain_grace_s(0, 0))))
    rows.append(("no preemption: given back because demand shrank", _time(costs.RECLAIM_GRACE_S)))
    return table(("gap in priority", "grace"), rows)


def _idle_hold() -> str:
    holds = IdleHolds()
    return table(
        ("bought as", "given back after"),
        [(kind.label, _time(int(holds.of(kind))) if holds.of(kind) else "never") for kind in CapacityType],
    )


def _buckets() -> str:
    shown = [bucket for bucket in ALL_BUCKETS if bucket not in {UNSPECIFIED, ZERO_DOLLARS, PINNED}]
    few = [*shown[:3], *shown[-1:]]
    doubled = shown[3:-1]
    if [upper_bound(bucket) for bucket in doubled] != [2.0 ** (bucket - 3) for bucket in doubled]:
        raise ValueError("buckets: no longer powers of two, allowed is a table that says so")
    rows = [(str(bucket), f"up to {_dollars(bucket)}", _dollars(bucket)) for bucket in few]
    middle = ", ".join(map(_dollars, doubled[:3])) + f" … {_dollars(doubled[-1])}"
    rows.insert(3, (f"{doubled[0]} … {doubled[-1]}", "up to 2^(number − 3) dollars", middle))
    return table(
        ("number", "holds amounts", "value used"),
        [
            (f"{UNSPECIFIED} unspecified", "none given", _dollars(UNSPECIFIED)),
            (f"{ZERO_DOLLARS} zero", "$0 and less", _dollars(ZERO_DOLLARS)),
            *rows,
            (f"{PINNED} pinned", f"more than {_dollars(shown[-1])}", "infinite"),
        ],
    )


def _dollars(bucket: int) -> str:
    bound = upper_bound(ALL_BUCKETS[bucket])
    return f"${bound:,.0f}" if bound.is_integer() else f"${bound:.2f}"


def _time(seconds: int) -> str:
    if seconds % 60:
        return f"{seconds} seconds"
    return "1 minute" if seconds == 60 else f"{seconds // 60} minutes"


PARTS: Final[dict[str, Callable[[], str]]] = {
    "penalty-buckets": _buckets,
    "effective-cost": lambda: _formula("effective cost", costs.effective_cost),
    "victim-score": lambda: _formula("victim score", costs.victim_cost),
    "drain-grace": _drain_grace,
    "idle-hold": _idle_hold,
}
