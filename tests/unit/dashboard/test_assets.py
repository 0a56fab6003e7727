"""What the package carries for pages (`dashboard#look`, `dashboard#assets`)."""

import re

import pytest

from bigfleet.dashboard.assets import read_assets


@pytest.mark.rule("dashboard#assets")
def test_all_assets_together_stay_below_150_kilobytes() -> None:
    assert sum(map(len, read_assets().bodies.values())) < 150_000


@pytest.mark.rule("dashboard#assets")
def test_no_asset_refers_to_another_place() -> None:
    for name, body in read_assets().bodies.items():
        found = re.findall(rb"https?://[^\"') ]+", body)
        assert [link for link in found if link != b"http://www.w3.org/2000/svg"] == [], name
        assert b"@import" not in body, name


def test_the_digest_names_exactly_this_content() -> None:
    assert read_assets() == read_assets()
    assert re.fullmatch(r"[0-9a-f]{12}", read_assets().digest)
