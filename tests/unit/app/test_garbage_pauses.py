"""The collector is off while a cache fills, on afterwards, and leaves the cache alone."""

import gc
from collections.abc import Iterator

import pytest

from bigfleet.app.garbage import freeze_and_resume, pause_collection, unfreeze_and_resume


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    yield
    gc.unfreeze()
    gc.enable()


def test_the_collector_is_off_until_the_cache_is_there_and_then_leaves_it_alone() -> None:
    pause_collection()
    assert not gc.isenabled()
    freeze_and_resume()
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0
    unfreeze_and_resume()
    assert gc.get_freeze_count() == 0
    assert gc.isenabled()


def test_it_is_on_again_also_when_the_cache_never_came() -> None:
    pause_collection()
    unfreeze_and_resume()
    assert gc.isenabled()
