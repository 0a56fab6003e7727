"""The flags of `bigfleet-operator`, and what ends it before it touches a cluster."""

from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pytest

from bigfleet.aio.system_disk import SystemDisk
from bigfleet.app.operator import PROGRAM
from bigfleet.app.operator.command import OperatorSettings
from bigfleet.app.operator.serve import options_of, renderer_of
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.dispatch import dispatch
from bigfleet.model.frames import BlobRequest

NEEDED = ("--cluster-id=c", "--shard-addr=a:1")


def run(*flags: str) -> tuple[int, str]:
    err = StringIO()
    console = Console(PROGRAM, StringIO(), err, {}, lambda: datetime(2026, 1, 1, tzinfo=UTC))
    return dispatch(console, ["run", *flags]), err.getvalue()


@pytest.mark.rule("operator#start-order")
@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        pytest.param(["--shard-addr=a:1"], 2, "--cluster-id", id="2 no cluster id"),
        pytest.param(["--cluster-id=c"], 2, "--shard-addr", id="2 no shard address"),
        pytest.param([*NEEDED, "--tls-cert=x"], 2, "--tls-key", id="2 one of three"),
        pytest.param([*NEEDED, "--tls-cert=x", "--tls-ca=y"], 2, "--tls-key", id="2 two of three"),
        pytest.param(
            ["--cluster-id=a b", "--shard-addr=a:1"], 2, "--cluster-id", id="an id no certificate can name"
        ),
        pytest.param(["--cluster-id=c", "--shard-addr=a"], 2, "--shard-addr", id="an address without a port"),
        pytest.param([*NEEDED, "--qps=0"], 2, "--qps", id="no calls at all"),
        pytest.param([*NEEDED, "--ack-concurrency=0"], 2, "--ack-concurrency", id="no acknowledgements"),
        pytest.param([*NEEDED, "--rollup-interval=soon"], 2, "--rollup-interval", id="no duration"),
        pytest.param(
            [*NEEDED, "--tls-cert=nowhere.crt", "--tls-key=y", "--tls-ca=z"],
            1,
            "nowhere.crt",
            id="TLS material that is not there",
        ),
        pytest.param([*NEEDED, "--bootstrap-template-file=no.tmpl"], 1, "no.tmpl", id="36 no template file"),
        pytest.param([*NEEDED, "--kubeconfig=nowhere"], 1, "nowhere", id="no way into a cluster"),
        pytest.param([*NEEDED], 1, "no way into a cluster", id="no cluster at all"),
    ],
)
def test_an_error_at_start_is_one_sentence(flags: list[str], code: int, message: str) -> None:
    found, text = run(*flags)
    assert found == code
    assert message in text
    assert "Traceback" not in text


@pytest.mark.rule("operator#template-refused", "operator#e18")
@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("a\n{{.Nope}}", "line 2: '.Nope'"),
        ("{{if .ClusterID}}", "line 1: 'if'"),
        ("{{toYaml .}}", "line 1: 'toYaml'"),
        ('{{template "x"}}', "line 1: 'template'"),
    ],
)
@pytest.mark.rule("operator#template-refused")
def test_a_bad_template_ends_it_with_line_and_word(tmp_path: Path, source: str, message: str) -> None:
    (tmp_path / "join.tmpl").write_text(source)
    code, text = run(*NEEDED, f"--bootstrap-template-file={tmp_path / 'join.tmpl'}")
    assert code == 1
    assert message in text


def test_the_flags_reach_the_operator() -> None:
    settings = OperatorSettings(
        cluster_id="c", shard_addr="a:1", rollup_interval=0.5, orphan_sweep=False, ack_concurrency=3
    )
    options = options_of(settings)
    assert (options.cluster, options.shard_addr, options.rollup_interval_s) == ("c", "a:1", 0.5)
    assert (options.orphan_sweep, options.ack_concurrency, options.cache_sync_timeout_s) == (False, 3, 600.0)


@pytest.mark.rule("operator#rollup-cadence")
def test_no_interval_is_ten_seconds() -> None:
    assert options_of(OperatorSettings(cluster_id="c", shard_addr="a:1")).rollup_interval_s == 10.0


def test_the_ttl_flag_holds_for_stub_and_template(tmp_path: Path) -> None:
    def ttl(**flags: object) -> int:
        settings = OperatorSettings(cluster_id="c", shard_addr="a:1", **flags)  # type: ignore[arg-type]
        return renderer_of(settings, SystemDisk()).answer(BlobRequest("r")).ttl_s

    path = tmp_path / "join.tmpl"
    path.write_text("x")
    assert ttl() == 600
    assert ttl(bootstrap_ttl=60) == 60
    assert ttl(bootstrap_template_file=path) == 0
    assert ttl(bootstrap_template_file=path, bootstrap_ttl=60) == 60
