"""What the package carries for pages (`dashboard#look`, `dashboard#assets`)."""

import hashlib
import re
from importlib.resources import files

import pytest

from bigfleet.dashboard.assets import read_assets

HARMLESS = {b"http://www.w3.org/2000/svg", b"https://github.com/leeoniya/uPlot"}
"""A name space, and the comment at the head of uPlot."""
UPLOT = {
    "uplot.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uplot.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "uplot.LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
}
"""Of `dist/uPlot.iife.min.js`, `dist/uPlot.min.css` and `LICENSE` of the package uplot 1.6.32 of npm."""


@pytest.mark.rule("dashboard#assets")
def test_the_chart_library_is_as_published_and_its_licence_is_beside_it() -> None:
    folder = files("bigfleet.dashboard") / "static"
    for name, digest in UPLOT.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest, name
    assert b"v1.6.32" in (folder / "uplot.js").read_bytes()[:80]


@pytest.mark.rule("dashboard#assets")
def test_all_assets_together_stay_below_150_kilobytes() -> None:
    assert sum(map(len, read_assets().bodies.values())) < 150_000


@pytest.mark.rule("dashboard#assets")
def test_no_asset_refers_to_another_place() -> None:
    for name, body in read_assets().bodies.items():
        found = re.findall(rb"https?://[^\"') ]+", body)
        assert [link for link in found if link not in HARMLESS] == [], name
        assert b"@import" not in body, name


def test_the_digest_names_exactly_this_content() -> None:
    assert read_assets() == read_assets()
    assert re.fullmatch(r"[0-9a-f]{12}", read_assets().digest)
