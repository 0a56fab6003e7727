"""Flag, environment, file, default: one setting, three ways to give it."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from pydantic import Field

from bigfleet.cli.framework.settings import KEPT_VARIABLES, Flags, ProcessFlags

Run = Callable[..., tuple[int, str, str]]


def serve(run: Run, *argv: str, **environ: str) -> dict[str, str]:
    code, out, err = run("serve", "-o", "json", *argv, environ=environ)
    assert (code, err) == (0, "")
    loaded = yaml.safe_load(out)
    assert isinstance(loaded, dict)
    return loaded


def refusal(run: Run, *argv: str, **environ: str) -> str:
    code, out, err = run(*argv, environ=environ)
    assert (code, out) == (2, "")
    assert err.startswith("sample: ")
    assert err.count("\n") == 1
    return err


@pytest.mark.rule("packaging#settings-sources")
@pytest.mark.parametrize(
    ("sources", "effective"),
    [
        pytest.param({"flag": "1s", "variable": "2s", "file": "3s"}, "1.0", id="flag first"),
        pytest.param({"variable": "2s", "file": "3s"}, "2.0", id="then environment"),
        pytest.param({"file": "3s"}, "3.0", id="then file"),
        pytest.param({}, "10.0", id="then default"),
        pytest.param({"flag": "1s", "file": "3s"}, "1.0", id="flag over file"),
    ],
)
def test_the_first_source_that_has_a_value_wins(
    run: Run, tmp_path: Path, sources: dict[str, str], effective: str
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(f"cycle-interval: {sources['file']}\n" if "file" in sources else "")
    argv = ["--config", str(config), *([f"--cycle-interval={sources['flag']}"] if "flag" in sources else [])]
    environ = {"BIGFLEET_SERVE_CYCLE_INTERVAL": sources["variable"]} if "variable" in sources else {}
    assert serve(run, *argv, **environ)["cycle_interval"] == effective


def test_the_config_file_itself_may_be_named_by_the_environment(run: Run, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("dry-run: true\nmetrics-addr: 0\nscrape: [a, b]\n")
    settings = serve(run, BIGFLEET_SERVE_CONFIG=str(config))
    assert (settings["dry_run"], settings["metrics_addr"], settings["scrape"]) == (
        "True",
        "None",
        "('a', 'b')",
    )


@pytest.mark.rule("packaging#go-values")
@pytest.mark.parametrize(
    ("argv", "field", "effective"),
    [
        (["--dry-run"], "dry_run", "True"),
        (["--dry-run=true"], "dry_run", "True"),
        (["--dry-run", "--dry-run=false"], "dry_run", "False"),
        (["-dry-run"], "dry_run", "True"),
        (["--cycle-interval", "1h30m"], "cycle_interval", "5400.0"),
        (["--cycle-interval=0"], "cycle_interval", "0.0"),
        (["--listen", ":7780"], "listen", ":7780"),
        (["--metrics-addr", "0"], "metrics_addr", "None"),
        (["--metrics-addr=[::1]:0"], "metrics_addr", "[::1]:0"),
        (["--audit-max-bytes", "1GiB"], "audit_max_bytes", "1073741824"),
        (["--scrape", "a", "--scrape=b,c"], "scrape", "('a', 'b', 'c')"),
        (["--id", "node-7"], "node_id", "node-7"),
        (["--shutdown-grace", "1m"], "shutdown_grace", "60.0"),
        (["--reflection"], "reflection", "True"),
        (["--provider-addr=p:9000"], "provider_addr", "p:9000"),
        (["--provider-addr="], "provider_addr", "None"),
        (["--tls-cert="], "tls_cert", "None"),
    ],
)
def test_values_are_written_as_charts_and_scripts_write_them(
    run: Run, argv: list[str], field: str, effective: str
) -> None:
    assert serve(run, *argv)[field] == effective


@pytest.mark.rule("packaging#addresses")
def test_without_flags_every_listener_is_on_loopback(run: Run) -> None:
    settings = serve(run)
    assert (settings["listen"], settings["metrics_addr"]) == ("127.0.0.1:7780", "127.0.0.1:8780")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--cycle-interval", "ten"], "--cycle-interval: found 'ten', allowed is a duration such as"),
        (["--listen", "7780"], "--listen: found '7780', allowed is host:port"),
        (
            ["--reclaim-cap-fraction", "2"],
            "--reclaim-cap-fraction: found '2', allowed is a number at least 0 and at most 1",
        ),
        (["--provider-addr", ":9000"], "--provider-addr: found ':9000', allowed is host:port"),
        (["--metrics-addr="], "--metrics-addr: found '', allowed is"),
        (["--dry-run=maybe"], "--dry-run: found 'maybe', allowed is true or false"),
        (["--log-level", "loud"], "--log-level: found 'loud', allowed is one of debug, info, warning, error"),
        (["--log-format=xml"], "--log-format: found 'xml', allowed is one of json, console"),
        (["--cycle-intervall", "1s"], "unknown flag --cycle-intervall (did you mean --cycle-interval?)"),
        (["--listen"], "--listen: found nothing, allowed is host:port"),
        (["--listen", "--dry-run"], "--listen: found nothing"),
        (["extra"], "unexpected argument 'extra', allowed is flags only"),
    ],
)
def test_a_wrong_flag_is_one_line_with_the_field_and_what_is_allowed(
    run: Run, argv: list[str], message: str
) -> None:
    assert message in refusal(run, "serve", *argv)


def test_a_wrong_variable_is_reported_with_its_name(run: Run) -> None:
    message = refusal(run, "serve", BIGFLEET_SERVE_CYCLE_INTERVAL="10")
    assert (
        "--cycle-interval: found '10' in environment BIGFLEET_SERVE_CYCLE_INTERVAL, allowed is a duration"
        in message
    )


def test_all_wrong_values_are_reported_in_the_same_line(run: Run) -> None:
    message = refusal(run, "serve", "--listen=x", "--cycle-interval=x")
    assert "--listen:" in message
    assert "--cycle-interval:" in message


@pytest.mark.rule("packaging#settings-sources")
def test_a_masked_value_is_not_repeated_in_an_error(run: Run, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("dsn: [hunter2]\n")
    message = refusal(run, "serve", "--config", str(config))
    assert "--dsn: found a value" in message
    assert "hunter2" not in message


def test_a_missing_required_flag_is_named_with_every_way_to_give_it(run: Run) -> None:
    message = refusal(run, "needy")
    assert "--cluster-id: missing" in message
    assert "BIGFLEET_NEEDY_CLUSTER_ID" in message


def test_an_empty_required_flag_is_refused(run: Run) -> None:
    assert "--cluster-id: found '', allowed is a text of length at least 1" in refusal(
        run, "needy", "--cluster-id="
    )


@pytest.mark.parametrize(
    "argv",
    [
        ["--tls-cert=a"],
        ["--tls-key=a"],
        ["--tls-ca=a"],
        ["--tls-cert=a", "--tls-key=b"],
        ["--tls-cert=a", "--tls-ca=b"],
    ],
)
def test_a_partial_tls_set_is_refused_naming_what_is_missing(run: Run, argv: list[str]) -> None:
    message = refusal(run, "serve", *argv)
    assert "allowed is all three TLS flags or none" in message
    for flag in ("--tls-cert", "--tls-key", "--tls-ca"):
        assert flag in message


def test_a_whole_tls_set_may_come_from_several_sources(run: Run, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("tls-ca: ca.crt\n")
    settings = serve(run, "--tls-cert=c", "--config", str(config), BIGFLEET_SERVE_TLS_KEY="k")
    assert (settings["tls_cert"], settings["tls_key"], settings["tls_ca"]) == ("c", "k", "ca.crt")


def test_an_unknown_variable_under_the_own_prefix_is_refused_by_name(run: Run) -> None:
    message = refusal(run, "serve", BIGFLEET_SERVE_DRY_RUM="1")
    assert (
        "unknown environment variable BIGFLEET_SERVE_DRY_RUM (did you mean BIGFLEET_SERVE_DRY_RUN?)"
        in message
    )


def test_variables_of_other_commands_and_kept_ones_are_left_alone(run: Run) -> None:
    others = {
        "BIGFLEET_NEEDY_CLUSTER": "x",
        "BIGFLEET_SERVE_FAIL_ANYTHING": "1",
        "BIGFLEETCTL_X": "1",
        "HOME": "/",
    }
    assert serve(run, **others, **dict.fromkeys(KEPT_VARIABLES, "1"))["node_id"] == "node-1"


def test_a_kept_variable_of_the_original_sets_its_flag_unless_ours_does(run: Run) -> None:
    assert serve(run, BIGFLEET_PHASEDUMP="1")["phase_log"] == "True"
    assert serve(run, BIGFLEET_PHASEDUMP="1", BIGFLEET_SERVE_PHASE_LOG="false")["phase_log"] == "False"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dry-rum: true", "unknown key dry-rum (did you mean dry-run?)"),
        ("dry_run: true", "unknown key dry_run"),
        ("config: other.yaml", "unknown key config"),
        ("print-config: true", "unknown key print-config"),
        ("7: true", "unknown key 7"),
        ("- dry-run", "found a list, allowed is a mapping keyed by flag name"),
        ("dry-run: true\ndry-run: false", "key dry-run is given twice"),
        ("dry-run: [", "--config: "),
        ("cycle-interval: 10", "--cycle-interval: found 10 in file"),
        ("listen: [a, b]", "--listen: found ['a', 'b'] in file"),
        ("listen: true", "--listen: found True in file"),
        ("node-id: on", "--node-id: found True in file"),
        ("cycle-interval:", "--cycle-interval: found None in file"),
    ],
)
def test_a_wrong_config_file_is_refused_naming_the_key(
    run: Run, tmp_path: Path, text: str, message: str
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(text)
    assert message in refusal(run, "serve", "--config", str(config))


def test_a_config_file_that_is_not_there_is_reported(run: Run, tmp_path: Path) -> None:
    assert "no such file" in refusal(run, "serve", "--config", str(tmp_path / "absent"))


@pytest.mark.rule("packaging#settings-sources")
def test_print_config_shows_value_and_source_and_reads_back(run: Run, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("listen: ':7780'\n")
    argv = (
        "serve",
        "--config",
        str(config),
        "--cycle-interval=90s",
        "--dsn=topsecret",
        "--scrape=http://u:p@host/x",
    )
    code, out, err = run(*argv, "--print-config", environ={"BIGFLEET_SERVE_DRY_RUN": "1"})
    assert (code, err) == (0, "")
    sources = {line.split(":")[0]: line.rpartition("# ")[2] for line in out.splitlines()[1:]}
    assert sources["cycle-interval"] == "flag"
    assert sources["dry-run"] == "environment BIGFLEET_SERVE_DRY_RUN"
    assert sources["listen"] == f"file {config}"
    assert sources["node-id"] == "default"
    assert "topsecret" not in out
    assert "u:p" not in out
    printed = tmp_path / "printed.yaml"
    printed.write_text(out)
    again = serve(run, "--config", str(printed))
    assert (again["cycle_interval"], again["dry_run"], again["listen"]) == ("90.0", "True", ":7780")


def test_settings_built_in_code_ignore_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    class Settings(ProcessFlags, env_prefix="BIGFLEET_X_"):
        depth: int = Field(default=3)

    monkeypatch.setenv("BIGFLEET_X_DEPTH", "4")
    assert Settings().depth == 3
    assert Settings(depth=5, shutdown_grace=2.5).shutdown_grace == 2.5


def test_a_field_that_would_take_a_secret_is_refused_when_its_class_is_made() -> None:
    with pytest.raises(TypeError, match="raft_secret: a secret is a file"):
        type("Settings", (Flags,), {"__annotations__": {"raft_secret": str}, "raft_secret": ""})
