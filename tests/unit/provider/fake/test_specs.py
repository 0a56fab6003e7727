"""The notations of the flags (`providers#fake-flags`)."""

import pytest

from bigfleet.model.errors import InvalidFieldError
from bigfleet.provider.fake.lies.registry import LIES, parse_lies
from bigfleet.provider.fake.specs import (
    FailureRate,
    StockoutWindow,
    parse_failures,
    parse_latencies,
    parse_stockout,
)


def test_latencies_survive_being_cut_at_their_commas() -> None:
    pieces = ["create=lognormal:30s", "p99=4m", "drain=2s", "list=uniform:1s-5s", "create-call=1s"]
    found = parse_latencies(pieces)
    assert {kind: str(latency) for kind, latency in found.items()} == {
        "create": "lognormal:30s,p99=4m",
        "drain": "2s",
        "list": "uniform:1s-5s",
        "create-call": "1s",
    }


def test_a_failure_has_a_share_and_a_text_that_may_have_commas() -> None:
    found = parse_failures(["create=0.5:no luck", " none at all", "drain=1"])
    assert found == {
        "create": FailureRate(0.5, "no luck, none at all"),
        "drain": FailureRate(1.0, "injected failure"),
    }


@pytest.mark.parametrize(
    ("text", "stockout"),
    [
        ("m6i.large", StockoutWindow("m6i.large")),
        ("*", StockoutWindow()),
        ("*@zone-a", StockoutWindow("*", "zone-a")),
        ("m6i.large@zone-a=5m-10m", StockoutWindow("m6i.large", "zone-a", 300.0, 600.0)),
        ("m6i.large=0-30s", StockoutWindow("m6i.large", "*", 0.0, 30.0)),
        ("m6i.large@zone-a@Spot", StockoutWindow("m6i.large", "zone-a", capacity_type="Spot")),
        ("*@*@OnDemand=5m-10m", StockoutWindow("*", "*", 300.0, 600.0, "OnDemand")),
    ],
)
def test_a_stockout_names_type_zone_and_window(text: str, stockout: StockoutWindow) -> None:
    assert parse_stockout(text) == stockout


def test_a_stockout_hits_its_type_zone_and_window_only() -> None:
    row = parse_stockout("m6i.large@zone-a=5s-10s")
    assert row.hits("m6i.large", "zone-a", 5.0)
    assert not row.hits("m6i.large", "zone-a", 4.9)
    assert not row.hits("m6i.large", "zone-a", 10.0)
    assert not row.hits("m6i.large", "zone-b", 6.0)
    assert not row.hits("m6i.xlarge", "zone-a", 6.0)
    assert StockoutWindow().hits("any", "where", 0.0)
    spot = parse_stockout("m6i.large@zone-a@Spot")
    assert spot.hits("m6i.large", "zone-a", 0.0, "Spot")
    assert not spot.hits("m6i.large", "zone-a", 0.0, "OnDemand")


@pytest.mark.parametrize("text", ["", "@zone-a", "t@z@spot", "t=5m", "t=10m-5m", "t=5m-5m", "t=x-y"])
def test_a_stockout_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(InvalidFieldError):
        parse_stockout(text)


@pytest.mark.parametrize(
    ("texts", "allowed"),
    [
        (["creation=2s"], "create, configure, ready"),
        (["create"], "a duration"),
        (["create=2s", "reboot=3s"], "create, configure, ready"),
    ],
)
def test_a_latency_of_an_unknown_kind_is_refused_with_the_kinds(texts: list[str], allowed: str) -> None:
    with pytest.raises(InvalidFieldError, match=allowed):
        parse_latencies(texts)


@pytest.mark.parametrize("text", ["create=2", "create=-0.1", "create=often", "get=0.5", "create"])
def test_a_failure_that_is_no_probability_is_refused(text: str) -> None:
    with pytest.raises(InvalidFieldError):
        parse_failures([text])


def test_lies_have_a_number_of_their_own_where_none_is_given() -> None:
    assert parse_lies(["drop-list", "stale-list=12.5", "stuck=0.5"]) == {
        "drop-list": 0.1,
        "stale-list": 12.5,
        "stuck": 0.5,
    }


@pytest.mark.parametrize("text", ["white-lie", "drop-list=2", "drop-list=-1", "drop-list=x", "stuck=nan"])
def test_an_unknown_lie_or_one_with_a_wrong_number_is_refused(text: str) -> None:
    with pytest.raises(InvalidFieldError):
        parse_lies([text])


def test_every_lie_of_the_contract_exists() -> None:
    wanted = """ack-early drop-list dup-list empty-list stale-list nan-price bad-probability bound-without-cluster
    forget-metadata mangle-metadata alien-state revision-backwards delta-misses idle-bump accept-stale fence-per-shard
    fence-all fence-reads fp-for-position new-id-each-time reuse-id early-configured drain-reverts stuck two-hosts
    host-early late-cluster implicit-create leak-blob"""
    assert set(LIES) == set(wanted.split())
