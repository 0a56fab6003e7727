"""Flags of `bigfleet shard`: what is refused, in which words, and that nothing is left behind.

Rules: `packaging#settings-sources`, `packaging#exit-codes`.
"""

from pathlib import Path

import pytest

from bigfleet.app import bigfleet
from bigfleet.app.shard.build import options_of
from bigfleet.app.shard.command import ShardSettings
from bigfleet.shard.options import ShardOptions

SEEDED = ("--seed-configured-per-cluster", "3", "--seed-cluster-total", "2", "--seed-cluster-stride", "1")


@pytest.mark.rule("shard#tls", "shard#bad-flag", "packaging#shard-certificates")
@pytest.mark.parametrize(
    ("flags", "words"),
    [
        pytest.param(("--tls-cert", "x.pem"), "without --tls-key, --tls-ca", id="partial TLS"),
        (("--listen", ""), "listen"),
        (("--data-dir", ""), "--data-dir: found '', allowed is the path of a directory"),
        (("--cycle-interval", "soon"), "--cycle-interval: found 'soon'"),
        (("--reclaim-cap-fraction", "2"), "--reclaim-cap-fraction"),
        (("--execute-concurrency", "0"), "--execute-concurrency"),
        (("--provider-addr", "nowhere"), "--provider-addr: found 'nowhere'"),
        (("--no-such-flag",), "no-such-flag"),
        (("--provider-addr", "p:1", "--seed-machines", "3"), "--seed-machines: found together with"),
        (("--provider-addr", "p:1", "--failure-rate-per-sec", "1"), "--failure-rate-per-sec: found together"),
        (("--provider-addr", "p:1", "--archetypes", "realistic"), "--archetypes: found together with"),
        (("--seed-configured-per-cluster", "3"), "--seed-cluster-total and --seed-cluster-stride"),
        (("--id", "odd", *SEEDED), "an id that ends in -N"),
        (("--archetypes", "/nowhere.yaml"), "/nowhere.yaml"),
    ],
)
def test_a_bad_flag_is_one_line_and_exit_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], words: str
) -> None:
    data = tmp_path / "data"
    code = bigfleet.main(["shard", "--data-dir", str(data), "--log-level", "error", *flags])
    text = capsys.readouterr().err
    assert words in text
    assert len(text.strip().splitlines()) == 1
    assert text.startswith("bigfleet: ")
    if "/nowhere.yaml" not in words:
        assert code == 2
        assert not data.exists()


def test_the_rails_are_on_in_the_program_and_every_flag_arrives() -> None:
    usual = options_of(ShardSettings())
    assert (usual.reclaim_cap_fraction, usual.empty_rollup_guard) == (0.05, True)
    assert (usual.cycle_interval_s, usual.available_capacity_interval_s) == (10.0, 5.0)
    assert usual == ShardOptions(advertise_address="127.0.0.1:7780")  # the library has the same defaults
    changed = options_of(
        ShardSettings(
            id="shard-3",
            cycle_interval=2.0,
            execute_concurrency=16,
            max_actions_per_cycle=9,
            incremental_reconcile=True,
            available_capacity_interval=1.0,
            metrics_warmup_cycles=4,
            phase_attribution_log=True,
            actuation_paused=True,
            dry_run=True,
            audit_strict=True,
            local_bootstrap=True,
            advertise_addr="shard-3:7780",
        )
    )
    assert changed.shard_id == "shard-3"
    assert (changed.execute_concurrency, changed.max_actions_per_cycle) == (16, 9)
    assert changed.incremental_reconcile
    assert (changed.available_capacity_interval_s, changed.metrics_warmup_cycles) == (1.0, 4)
    assert changed.phase_attribution_log
    assert changed.actuation_paused
    assert changed.dry_run
    assert changed.audit_strict
    assert changed.local_bootstrap
    assert changed.advertise_address == "shard-3:7780"


@pytest.mark.parametrize(
    ("name", "ordinal"), [("shard-0", 0), ("eu-shard-12", 12), ("shard", None), ("7", None)]
)
def test_the_ordinal_of_an_id(name: str, ordinal: int | None) -> None:
    assert ShardSettings(id=name).ordinal == ordinal
