"""Figures from a Prometheus: each question of a page as one query.

Why: a site with a Prometheus has more than an hour of data, and does not want every process scraped twice.
Must never: turn "no such series" into 0, or wait longer than 5 s for a value and 10 s for a range.
Rules: `dashboard#sources`, `dashboard#metrics-contract`.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from math import isnan
from typing import Any, Final

from bigfleet.dashboard.core.series import Labels
from bigfleet.dashboard.metric_reader import RATE_WINDOW_S, WINDOW_S, CurrentValue, Trend, steps
from bigfleet.dashboard.sources import SourceError, SourceProblem

INSTANT_S: Final = 5.0
RANGE_S: Final = 10.0

Ask = Callable[[str, Mapping[str, str], float], Awaitable[bytes]]
"""Asks a path with a query within a deadline; raises `OSError` or `TimeoutError`. Refusals of a query are answers."""


class Prometheus:
    """A Prometheus that scrapes the fleet, with the label `pod` on every series."""

    def __init__(self, ask: Ask, now: CurrentValue) -> None:
        self._ask, self._now = ask, now

    async def sums(self, name: str, by: Sequence[str], **only: str) -> Mapping[Labels, float]:
        return await self._instant(_sum(by, f"{name}{_only(only)}"), by)

    async def rates(
        self, name: str, by: Sequence[str], window_s: float = WINDOW_S, **only: str
    ) -> Mapping[Labels, float]:
        return await self._instant(_rate(name, by, window_s, only), by)

    async def quantiles(
        self, name: str, by: Sequence[str], quantile: float, window_s: float = WINDOW_S, **only: str
    ) -> Mapping[Labels, float]:
        return await self._instant(_quantile(name, by, quantile, window_s, only), by)

    async def rate_trend(
        self, name: str, by: Sequence[str], duration_s: float, step_s: float, **only: str
    ) -> Trend:
        query = _rate(name, by, max(step_s, RATE_WINDOW_S), only)
        return await self._range(query, by, duration_s, step_s)

    async def quantile_trend(
        self, name: str, by: Sequence[str], quantile: float, duration_s: float, step_s: float, **only: str
    ) -> Trend:
        return await self._range(_quantile(name, by, quantile, WINDOW_S, only), by, duration_s, step_s)

    async def _instant(self, query: str, by: Sequence[str]) -> dict[Labels, float]:
        rows = await self._result("/api/v1/query", {"query": query}, INSTANT_S)
        values = {_labels(row, by): _value(row["value"]) for row in rows}
        return {labels: value for labels, value in sorted(values.items()) if not isnan(value)}

    async def _range(self, query: str, by: Sequence[str], duration_s: float, step_s: float) -> Trend:
        times = steps(self._now(), duration_s, step_s)
        asked = {"query": query, "start": f"{times[0]:.0f}", "end": f"{times[-1]:.0f}", "step": f"{step_s:g}"}
        rows = await self._result("/api/v1/query_range", asked, RANGE_S)
        found = {_labels(row, by): {round(pair[0]): _value(pair) for pair in row["values"]} for row in rows}
        return Trend(
            times,
            {
                labels: [_known(points.get(round(time))) for time in times]
                for labels, points in sorted(found.items())
            },
        )

    async def _result(self, path: str, query: Mapping[str, str], timeout_s: float) -> Sequence[Any]:
        try:
            reply = json.loads(await self._ask(path, query, timeout_s))
        except TimeoutError as error:
            raise SourceError(SourceProblem.FAILED, "the Prometheus did not answer in time") from error
        except OSError as error:
            raise SourceError(SourceProblem.FAILED, f"the Prometheus does not answer: {error}") from error
        except ValueError as error:
            raise SourceError(
                SourceProblem.FAILED, "the Prometheus answered something that is no JSON"
            ) from error
        if not isinstance(reply, dict) or reply.get("status") != "success":
            why = (
                reply.get("error", "it does not say why")
                if isinstance(reply, dict)
                else "its answer is no object"
            )
            raise SourceError(SourceProblem.FAILED, f"the Prometheus refused the query: {why}")
        try:
            rows: Sequence[Any] = reply["data"]["result"]
        except (KeyError, TypeError) as error:
            raise SourceError(SourceProblem.FAILED, "the Prometheus answered in an unknown form") from error
        return rows


def _only(only: Mapping[str, str]) -> str:
    wanted = ",".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in only.items())
    return f"{{{wanted}}}" if wanted else ""


def _sum(by: Sequence[str], of: str) -> str:
    return f"sum by ({','.join(by)}) ({of})"


def _rate(name: str, by: Sequence[str], window_s: float, only: Mapping[str, str]) -> str:
    return _sum(by, f"rate({name}{_only(only)}[{window_s:.0f}s])")


def _quantile(name: str, by: Sequence[str], quantile: float, window_s: float, only: Mapping[str, str]) -> str:
    return f"histogram_quantile({quantile:g}, {_rate(f'{name}_bucket', (*by, 'le'), window_s, only)})"


def _labels(row: Mapping[str, Any], by: Sequence[str]) -> Labels:
    return tuple(row["metric"].get(name, "") for name in by)


def _value(pair: Sequence[Any]) -> float:
    return float(pair[1])


def _known(value: float | None) -> float | None:
    return None if value is None or isnan(value) else value
