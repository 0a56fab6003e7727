"""Whether anything may be carried out (`shard#pause-and-dry-run`, `shard#fenced`, `shard#audit-log`)."""

import pytest

from bigfleet.shard.core.actuation import Actuation, ActuationMode


@pytest.mark.rule("shard#pause-and-dry-run")
@pytest.mark.parametrize(
    ("paused", "dry_run", "mode"),
    [
        (False, False, ActuationMode.RUN),
        (False, True, ActuationMode.DRY_RUN),
        (True, False, ActuationMode.PAUSED),
        pytest.param(True, True, ActuationMode.PAUSED, id="both set counts as paused"),
    ],
)
def test_switches(paused: bool, dry_run: bool, mode: ActuationMode) -> None:
    assert Actuation(paused=paused, dry_run=dry_run).mode is mode


@pytest.mark.rule("shard#fenced", "shard#readiness")
def test_three_fenced_calls_in_a_row_stop_the_shard_for_good() -> None:
    actuation = Actuation()
    told = [actuation.answered(fenced=fenced) for fenced in (True, True, False, True, True, True, True)]
    assert told == [False, False, False, False, False, True, False]
    assert actuation.mode is ActuationMode.PAUSED
    assert actuation.self_paused
    assert "fenced 3 calls in a row" in actuation.not_ready()[0]
    actuation.answered(fenced=False)
    assert actuation.mode is ActuationMode.PAUSED


@pytest.mark.rule("shard#audit-log")
def test_a_lost_record_is_remarked_and_stops_nothing_unless_strict() -> None:
    lax, strict = Actuation(), Actuation(audit_strict=True)
    assert lax.audited(written=False)
    assert not lax.audited(written=False)  # only the first of a row
    assert lax.mode is ActuationMode.RUN
    assert not lax.not_ready()
    assert "2 records were lost" in lax.remarks()[0]
    modes = []
    for written in (False, True):
        strict.audited(written=written)
        modes.append(strict.mode)
    assert modes == [ActuationMode.PAUSED, ActuationMode.RUN]
    assert "works again" in strict.remarks()[0]
