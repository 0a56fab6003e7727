"""Flags of both programs: defaults, refusals, and the options of the provider.

Rules: `providers#fake-flags`, `providers#fault-convention`.
"""

from pathlib import Path

import pytest

from bigfleet.app import fake_provider, fault_provider
from bigfleet.app.fake_provider.command import FakeProviderSettings
from bigfleet.app.fake_provider.serve import options_of, seeds_of
from bigfleet.cli.framework.load import load
from bigfleet.cli.framework.options import options_of as flags_of
from bigfleet.cli.framework.parse import parse
from bigfleet.cli.framework.surface import entries
from bigfleet.cli.framework.tree import CliProgram
from bigfleet.model.errors import BigFleetError

PROGRAMS = [fake_provider.PROGRAM, fault_provider.PROGRAM]


def settings(*argv: str, **environ: str) -> FakeProviderSettings:
    parsed = parse(flags_of(FakeProviderSettings), argv)
    return load(FakeProviderSettings, parsed.texts, environ).settings


def test_without_flags_it_listens_on_loopback_and_has_no_control() -> None:
    found = settings()
    assert (str(found.addr), str(found.metrics_addr), found.control_addr) == (
        "127.0.0.1:9000",
        "127.0.0.1:9090",
        None,
    )
    assert list(seeds_of(found)()) == []


def test_flags_reach_the_provider() -> None:
    found = options_of(
        settings(
            *("--seed", "7", "--sync", "--no-delete", "--cursor", "stale", "--time-scale", "60"),
            *(
                "--latency",
                "create=lognormal:30s,p99=4m",
                "--latency=drain=2s",
                "--fail",
                "create=0.5:oh, no",
            ),
            *(
                "--stockout",
                "m6i.large@zone-a=5m-10m",
                "--loss-per-hour",
                "4.2e-4",
                "--lie",
                "drop-list=0.3,stuck",
            ),
            *("--max-message-bytes", "64MiB", "--drain-timeout", "1m"),
        )
    )
    assert (found.seed, found.sync, found.offer_delete, found.cursor, found.time_scale) == (
        7,
        True,
        False,
        "stale",
        60.0,
    )
    assert {kind: str(latency) for kind, latency in found.latencies.items()} == {
        "create": "lognormal:30s,p99=4m",
        "drain": "2s",
    }
    assert found.failures["create"].message == "oh, no"
    assert found.stockouts[0].to_s == 600.0
    assert found.lies == {"drop-list": 0.3, "stuck": 1.0}
    assert (found.max_message_bytes, found.timeouts.drain, found.loss_per_hour) == (64 << 20, 60.0, 4.2e-4)


def test_the_original_variable_sets_the_wait_of_a_create() -> None:
    found = options_of(settings(BIGFLEET_FAKE_CREATE_LATENCY="3s"))
    assert str(found.latencies["create"]) == "3s"
    both = options_of(settings("--latency", "create=1s", BIGFLEET_FAKE_CREATE_LATENCY="3s"))
    assert str(both.latencies["create"]) == "1s"


def test_machines_come_from_a_file_or_a_catalogue(tmp_path: Path) -> None:
    file = tmp_path / "pools.yaml"
    file.write_text("pools: [{name: m, count: 3, instance_type: t, zones: [a]}]")
    assert [slot.id for slot in seeds_of(settings("--inventory", str(file)))()] == ["m-0", "m-1", "m-2"]
    by_catalogue = seeds_of(settings("--catalog", "realistic", "--idle", "1000"))
    assert sum(1 for _ in by_catalogue()) == 1006


@pytest.mark.parametrize(
    ("argv", "reported"),
    [
        (("--latency", "reboot=2s"), "latency: found 'reboot'"),
        (("--fail", "create=2"), "fail create: found '2'"),
        (("--lie", "white"), "lie: found 'white'"),
        (("--stockout", "t=5m"), "stockout: found 't=5m'"),
        (("--control-addr", ":9001"), "control-addr: found ':9001', allowed is a loopback address"),
        (("--control-addr", "10.0.0.1:9001"), "control-addr"),
        (("--inventory", "/no/such/file"), "/no/such/file"),
        (("--catalog", "/no/such/file"), "/no/such/file"),
        (("--inventory", "a", "--catalog", "b"), "--catalog: found together with --inventory"),
        (("--require-shard-san",), "--require-shard-san"),
        (("--tls-cert", "x"), "--tls-key"),
        (("--time-scale", "0"), "--time-scale"),
        (("--cursor", "odd"), "honest, none, stale"),
        (("--catalog", "realistic", "--configured-per-cluster", "5"), "clusters: found 0"),
        (("--catalog", "realistic", "--ordinal", "2"), "ordinal: found 2"),
    ],
)
def test_a_bad_flag_ends_with_one_line_that_names_it(
    argv: tuple[str, ...], reported: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fake_provider.main(argv) in (1, 2)
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("bigfleet-fake-provider: ")
    assert reported in captured.err
    assert "Traceback" not in captured.err


def test_a_bad_inventory_is_reported_with_its_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pools.yaml"
    file.write_text("pools: [{name: m, colour: red, instance_type: t, zones: [a]}]")
    assert fake_provider.main(["--inventory", str(file)]) == 2
    assert "pools[0].colour" in capsys.readouterr().err


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_every_flag_is_described_and_every_example_begins_with_the_program(program: CliProgram) -> None:
    for entry in entries(program):
        assert all(option.help for option in entry.options)
        assert all(example.startswith(program.name) for example in entry.command.examples)
        names = [name for option in entry.options for name in option.names]
        assert len(names) == len(set(names))


@pytest.mark.parametrize("module", [fake_provider, fault_provider])
def test_help_and_version_are_answered_with_and_without_the_word(
    module: object, capsys: pytest.CaptureFixture[str]
) -> None:
    main = getattr(module, "main")  # noqa: B009  one of two modules
    for argv in (["--help"], ["serve", "--help"], ["--version"]):
        assert main(argv) == 0
    assert "--addr" in capsys.readouterr().out


def test_a_refusal_is_an_error_of_ours() -> None:
    with pytest.raises(BigFleetError):
        options_of(settings("--lie", "white"))
