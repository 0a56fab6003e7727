"""The collector is off while a cache fills, on afterwards, and leaves the cache alone."""

import gc
from collections.abc import Iterator

import pytest

from bigfleet.app.garbage import hold_collection, release_collection, settle_collection


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    yield
    gc.unfreeze()
    gc.enable()


def test_the_collector_is_off_until_the_cache_is_there_and_then_leaves_it_alone() -> None:
    hold_collection()
    assert not gc.isenabled()
    settle_collection()
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0
    release_collection()
    assert gc.get_freeze_count() == 0
    assert gc.isenabled()


def test_it_is_on_again_also_when_the_cache_never_came() -> None:
    hold_collection()
    release_collection()
    assert gc.isenabled()
