"""What an answer to a scrape may hold (`dashboard#scraper`, ADR-0246)."""

import asyncio
from collections import Counter
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigfleet.aio.clock import SystemClock
from bigfleet.dashboard.core.series import MetricSample, SeriesStore
from bigfleet.dashboard.scraper import (
    MAX_LINE_BYTES,
    MAX_LINES,
    Scraper,
    ScrapeTarget,
    read_lines,
    samples_of,
)

GAUGE = "bigfleet_shard_shortfalls"
BUCKET = "bigfleet_shard_cycle_duration_seconds_bucket"


def scraped(text: bytes) -> tuple[Scraper, SeriesStore, Counter[str]]:
    store, counted = SeriesStore(), Counter[str]()

    async def fetch() -> bytes:
        return text

    async def play() -> Scraper:
        scraper = Scraper(
            store,
            SystemClock(),
            lambda: [ScrapeTarget("s", fetch)],
            lambda reason, times: counted.update({reason: times}),
        )
        await scraper.once()
        return scraper

    return asyncio.run(play()), store, counted


@pytest.mark.rule("dashboard#scraper")
def test_long_and_surplus_lines_are_left_out_and_counted() -> None:
    long = f'{GAUGE}{{x="{"y" * MAX_LINE_BYTES}"}} 1'
    many = "\n".join(f'{GAUGE}{{x="{number}"}} 1' for number in range(MAX_LINES + 5))
    lines, left_out = read_lines(f"{long}\n{many}\nanother_metric 1\n".encode())
    assert (len(lines), left_out) == (MAX_LINES, {"long_line": 1, "too_many": 5})
    _, store, counted = scraped(f"{long}\n{GAUGE} 3\n".encode())
    assert (len(store), counted) == (1, {"long_line": 1})


@pytest.mark.rule("dashboard#scraper")
@pytest.mark.parametrize(
    "line",
    [
        f"{GAUGE} NaN",
        f"{GAUGE} +Inf",
        f"{GAUGE} 1e300",
        f'{BUCKET}{{le="soon"}} 1',
        f'{BUCKET}{{le="NaN"}} 1',
        f"{BUCKET} 1",
    ],
)
def test_a_value_that_pages_cannot_show_is_not_kept(line: str) -> None:
    assert list(samples_of([line.encode()])) == []


def test_a_bucket_without_an_end_above_is_kept() -> None:
    (sample,) = samples_of([f'{BUCKET}{{le="+Inf"}} 4'.encode()])
    assert sample == MetricSample(BUCKET, {"le": "+Inf"}, 4.0)
    assert sample.value < inf


@given(st.text(st.sampled_from('{}="\\, \t#aé1e+_'), max_size=30), st.text(max_size=20))
def test_whatever_an_endpoint_answers_is_samples_or_a_problem_of_its_own(rest: str, label: str) -> None:
    text = f'# TYPE {GAUGE} {label}\n{GAUGE}{rest}\n{GAUGE}{{a="{label}"}} 1\n'.encode(errors="replace")
    scraper, store, _ = scraped(text)
    assert len(store) or scraper.problems.get("s") or not list(samples_of(read_lines(text)[0]))


@pytest.mark.rule("dashboard#scraper")
def test_one_process_cannot_take_the_places_of_all_others() -> None:
    store = SeriesStore(max_series=10, max_of_pod=4)
    store.record("hostile", 1.0, [MetricSample("a", {"x": str(number)}, 1.0) for number in range(100)])
    store.record("honest", 1.0, [MetricSample("a", {"x": str(number)}, 1.0) for number in range(3)])
    assert (len(store), store.refused) == (7, 96)
    store.forget(2.0)
    store.record("hostile", 3.0, [MetricSample("a", {}, 1.0)])
    assert (len(store), store.refused) == (1, 96)
