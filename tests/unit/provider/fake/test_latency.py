"""Waits as texts and as draws (`providers#fake-flags`)."""

import pytest

from bigfleet.aio.rng import SeededRng
from bigfleet.model.errors import InvalidFieldError
from bigfleet.provider.fake.latency import parse_duration, parse_latency

DRAWS = 4000


def draws(text: str, seed: int = 1) -> list[float]:
    latency, stream = parse_latency(text), SeededRng(seed).stream("latency")
    return sorted(latency.draw(stream) for _ in range(DRAWS))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0.0), ("2s", 2.0), ("100ms", 0.1), ("1h30m", 5400.0), ("1.5s", 1.5), ("2m5s", 125.0)],
)
def test_a_duration_reads_as_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "2", "s", "-1s", "2 s", "2s!", "9000h", "1e3s", "٢s"])
def test_what_is_no_duration_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(InvalidFieldError, match="a duration such as"):
        parse_duration(text)


def test_a_fixed_wait_draws_no_lot() -> None:
    stream = SeededRng(1).stream("x")
    assert parse_latency("2s").draw(stream) == 2.0
    assert stream.random() == SeededRng(1).stream("x").random()


def test_uniform_waits_fill_their_range() -> None:
    found = draws("uniform:1s-5s")
    assert 1 <= found[0] < 1.1
    assert 4.9 < found[-1] <= 5
    assert sum(found) / DRAWS == pytest.approx(3, abs=0.1)


def test_lognormal_waits_have_their_median_and_p99() -> None:
    found = draws("lognormal:30s,p99=4m")
    assert found[DRAWS // 2] == pytest.approx(30, rel=0.1)
    assert found[DRAWS * 99 // 100] == pytest.approx(240, rel=0.2)


def test_one_seed_gives_the_same_waits_again_and_another_gives_others() -> None:
    assert draws("lognormal:1s,p99=2s") == draws("lognormal:1s,p99=2s")
    assert draws("lognormal:1s,p99=2s") != draws("lognormal:1s,p99=2s", seed=2)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "fast",
        "uniform:1s",
        "uniform:5s-1s",
        "uniform:1s-2s-3s",
        "lognormal:30s",
        "lognormal:0,p99=1s",
        "lognormal:4m,p99=30s",
        "normal:1s,p99=2s",
    ],
)
def test_what_is_no_distribution_is_refused_naming_what_was_found(text: str) -> None:
    with pytest.raises(InvalidFieldError) as refused:
        parse_latency(text, "latency create")
    assert refused.value.field == "latency create"
    assert refused.value.found == text
