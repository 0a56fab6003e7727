"""The flags of every program, read from its parser: which there are, their defaults, and three ways to give each.

Rules: `packaging#shard-flags`, `packaging#settings-sources`, `packaging#go-values`, `packaging#addresses`.
"""

import importlib
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Final

import pytest
import yaml

from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.dispatch import dispatch
from bigfleet.cli.framework.load import load
from bigfleet.cli.framework.options import Option
from bigfleet.cli.framework.settings import ProcessFlags
from bigfleet.cli.framework.surface import CommandEntry, entries
from bigfleet.cli.framework.tree import CliProgram
from bigfleet.transport.address import ListenAddress

ROOT = Path(__file__).resolve().parents[3]
SCRIPTS: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "scripts"
]
PROGRAMS: dict[str, CliProgram] = {
    name: importlib.import_module(target.partition(":")[0]).PROGRAM for name, target in SCRIPTS.items()
}
ALL: Final = {
    " ".join((name, *entry.row.words)): (name, entry)
    for name, program in PROGRAMS.items()
    for entry in entries(program)
}
SERVING: Final = {
    name: found for name, found in ALL.items() if issubclass(found[1].command.settings, ProcessFlags)
}

TLS: Final = dict.fromkeys(("tls-cert", "tls-key", "tls-ca"), "")
COMMON: Final = {"log-level": "info", "config": "", "print-config": "false", "reflection": "false"}
CONTRACT: Final[dict[str, dict[str, str]]] = {
    # Addresses without a host are written here as they are bound when no flag is given (`packaging#addresses`).
    "bigfleet shard": {
        **TLS, **COMMON, "shutdown-grace": "10s",
        "listen": "127.0.0.1:7780", "metrics-addr": "127.0.0.1:8780", "id": "shard-0", "data-dir": "data",
        "provider-addr": "", "coordinator-addr": "", "advertise-addr": "",
        "coordinator-heartbeat-interval": "10s", "shared-provider": "false",
        "partition-key": "topology.kubernetes.io/zone", "max-actions-per-cycle": "0", "execute-concurrency": "1",
        "incremental-reconcile": "false", "available-capacity-interval": "0", "metrics-warmup-cycles": "0",
        "phase-attribution-log": "false", "actuation-paused": "false", "reclaim-cap-fraction": "0.05",
        "empty-rollup-guard": "true", "dry-run": "false", "audit-log": "", "local-bootstrap": "false",
        "seed-machines": "0", "seed-speculative": "0", "seed-spot": "0", "seed-configured-per-cluster": "0",
        "seed-cluster-total": "0", "seed-cluster-stride": "0", "seed-density-multiplier": "1",
        "archetypes": "", "failure-rate-per-sec": "0.0", "speculative-shed-at-seconds": "0",
        "speculative-shed-multiplier": "1.0",
        "cycle-interval": "10s", "audit-strict": "false", "audit-max-bytes": "100MiB", "audit-keep": "5",
    },
    "bigfleet coordinator": {
        **TLS, **COMMON, "shutdown-grace": "5s",
        "listen": "127.0.0.1:7790", "raft-bind": "127.0.0.1:7791", "metrics-addr": "127.0.0.1:8790",
        "id": "node-1", "data-dir": "coord-data", "bootstrap": "false", "join-addr": "", "raft-advertise": "",
        "snapshot-export-dir": "no exports", "snapshot-export-interval": "0", "snapshot-export-keep": "12",
        "replicas": "1", "peers": "", "raft-secret-file": "", "bootstrap-without-peers": "false",
    },
    "bigfleet all-in-one": {
        **COMMON, "shutdown-grace": "10s",
        "shard-listen": "127.0.0.1:7780", "coordinator-listen": "127.0.0.1:7790",
        "raft-bind": "127.0.0.1:7791", "shard-metrics-addr": "127.0.0.1:8780",
        "coordinator-metrics-addr": "127.0.0.1:8790", "dashboard-addr": "127.0.0.1:8760",
        "data-dir": "", "shard-id": "shard-0", "coordinator-id": "node-1", "scenario": "", "open": "false",
    },
    "bigfleet-operator run": {
        **TLS, **COMMON, "shutdown-grace": "10s",
        "cluster-id": "", "shard-addr": "", "kubeconfig": "", "metrics-addr": "127.0.0.1:8770", "qps": "50.0",
        "burst": "100", "ack-concurrency": "16", "rollup-interval": "10s", "bootstrap-template-file": "",
        "cache-sync-timeout": "10m", "bootstrap-ttl": "0",
    },
    "bigfleet-unschedulable-pod-controller run": {
        **COMMON, "shutdown-grace": "10s",
        "kubeconfig": "", "metrics-addr": "127.0.0.1:8080", "priority-class-defaults": "", "qps": "50.0",
        "burst": "100", "concurrency": "16",
    },
}  # fmt: skip
NOT_YET: Final = {
    "bigfleet coordinator": {"rebalance", "rebalance-interval", "rebalance-cooldown"},
}
"""Flags of the rebalancer; they come with it."""
LOCAL_ONLY: Final = ("127.0.0.1", "localhost", "[::1]")


def entry_of(name: str) -> CommandEntry:
    program, *words = name.split()
    (found,) = (entry for entry in entries(PROGRAMS[program]) if entry.row.words == tuple(words))
    return found


@pytest.mark.rule("packaging#shard-flags")
@pytest.mark.parametrize("name", CONTRACT)
def test_every_flag_of_the_contract_exists_with_its_default(name: str) -> None:
    found = {option.flag: option.default for option in entry_of(name).options}
    assert {flag: found.get(flag) for flag in CONTRACT[name]} == CONTRACT[name]
    assert not NOT_YET.get(name, set()) & set(found)  # then they belong into the table above


# Three ways


def sample(option: Option) -> str:
    """Return a text that the option takes and that is not its default."""
    if option.choices:
        return next(choice for choice in option.choices if choice != option.default)
    if not option.takes_value:
        return "false" if option.default == "true" else "true"
    if option.is_path or option.metavar in ("FILE", "DIR", "PATH"):
        return "some/place"
    texts = {"DURATION": "1h30m", "ADDRESS": "example:4711", "BYTES": "7MiB", "INTEGER": "7", "NUMBER": "0.5"}
    special = {"replicas": "3", "coordinator-addr": "example:4711", "shard-addr": "example:4711"}
    special |= {"prometheus-url": "http://example:9090", "scrape": "pod=http://example:8780/metrics"}
    special |= {"trusted-proxy": "10.0.0.0/8", "base-path": "/fleet/", "allowed-host": "fleet.example"}
    special |= {"allowed-shard-host": "*.fleet.example"}
    return special.get(option.flag) or texts.get(option.metavar, "some-1")


NEEDS: Final = {"replicas": {"raft_secret_file": ["some/secret"], "join_addr": ["example:7790"]}}
"""What has to be given along with a flag."""


def settable(entry: CommandEntry) -> Iterator[Option]:
    for option in entry.options:
        if not option.positional and option.cli.in_file and option.cli.in_environment:
            yield option


def given(entry: CommandEntry, option: Option, how: str, folder: Path) -> tuple[object, str]:
    """Return the value that an option has when it is given in one way, and where it came from."""
    flags = {other.field: [sample(other)] for other in entry.options if other.required}
    flags |= NEEDS.get(option.flag, {})
    environ: dict[str, str] = {}
    text = sample(option)
    companions = ("tls_cert", "tls_key", "tls_ca")  # all or none
    fields = companions if option.field in companions else (option.field,)
    options = {other.field: other for other in entry.options}
    for field in fields:
        flags.pop(field, None)
    if how == "flag":
        flags.update({field: [text] for field in fields})
    elif how == "environment":
        environ.update({options[field].variable: text for field in fields})
    else:
        file = folder / "config.yaml"
        file.write_text(yaml.safe_dump({options[field].flag: text for field in fields}), encoding="utf-8")
        flags["config"] = [str(file)]
    loaded = load(entry.command.settings, flags, environ)
    return getattr(loaded.settings, option.field), loaded.sources[option.field]


@pytest.mark.rule("packaging#settings-sources")
@pytest.mark.parametrize(("program", "entry"), SERVING.values(), ids=SERVING)
def test_every_flag_of_a_serving_program_has_three_ways_and_one_meaning(
    program: str, entry: CommandEntry, tmp_path: Path
) -> None:
    tried = 0
    for option in settable(entry):
        by_flag = given(entry, option, "flag", tmp_path)
        by_environment = given(entry, option, "environment", tmp_path)
        by_file = given(entry, option, "file", tmp_path)
        assert by_flag[0] == by_environment[0] == by_file[0], option.flag
        assert option.text(by_flag[0]) != option.default, option.flag
        assert by_flag[1] == "flag"
        assert by_environment[1] == f"environment {option.variable}"
        assert by_file[1].startswith("file ")
        tried += 1
    assert tried == len(entry.options) - 2  # not --config and --print-config


@pytest.mark.rule("packaging#settings-sources")
@pytest.mark.parametrize(("program", "entry"), ALL.values(), ids=ALL)
def test_an_unknown_key_and_an_unknown_variable_are_named(
    program: str, entry: CommandEntry, tmp_path: Path
) -> None:
    prefix = entry.command.settings.model_config.get("env_prefix", "")
    words = list(entry.row.words)
    (tmp_path / "config.yaml").write_text("no-such-key: 1\n", encoding="utf-8")
    for argv, environ, message in (
        ([*words, "--config", str(tmp_path / "config.yaml")], {}, "unknown key no-such-key"),
        (words, {f"{prefix}NO_SUCH_KEY": "1"}, f"unknown environment variable {prefix}NO_SUCH_KEY"),
    ):
        code, out, err = run(PROGRAMS[program], argv, environ)
        assert (code, out, err.count("\n")) == (2, "", 1), err
        assert message in err


def run(program: CliProgram, argv: list[str], environ: dict[str, str]) -> tuple[int, str, str]:
    out, err = StringIO(), StringIO()
    code = dispatch(Console(program, out, err, environ, lambda: datetime.now(UTC)), argv)
    return code, out.getvalue(), err.getvalue()


@pytest.mark.rule("packaging#go-values")
@pytest.mark.parametrize(
    ("flag", "field", "text"),
    [
        ("--actuation-paused=false", "actuation-paused", "false"),
        ("--cycle-interval=1h30m", "cycle-interval", "1h30m"),
        ("--listen=:7780", "listen", ":7780"),
        ("--metrics-addr=0", "metrics-addr", "0"),
    ],
)
def test_the_shard_takes_what_charts_and_scripts_write(flag: str, field: str, text: str) -> None:
    code, out, err = run(PROGRAMS["bigfleet"], ["shard", flag, "--print-config"], {})
    assert (code, err) == (0, "")
    (line,) = (line for line in out.splitlines() if line.startswith(f"{field}:"))
    assert line.split("#")[0].split(":", 1)[1].strip().strip("'\"") == text


# Listeners


def listeners(entry: CommandEntry) -> dict[str, object]:
    """Return the default of every option that an address to listen on is read into."""
    fields = entry.command.settings.model_fields
    return {
        option.flag: fields[option.field].get_default()
        for option in entry.options
        if option.kind is not None and ListenAddress in option.kind.types
    }


@pytest.mark.rule("packaging#addresses")
@pytest.mark.parametrize(("program", "entry"), SERVING.values(), ids=SERVING)
def test_without_flags_every_listener_is_on_loopback(program: str, entry: CommandEntry) -> None:
    found = listeners(entry)
    for flag, default in found.items():
        assert default is None or str(default).startswith("127.0.0.1:"), flag
    # An address that is no listener is one to dial, and has no default on this machine's wider network either.
    others = {o.flag: o.default for o in entry.options if o.metavar == "ADDRESS" and o.flag not in found}
    assert all(not default or default.startswith(LOCAL_ONLY) for default in others.values()), others


@pytest.mark.rule("packaging#addresses")
def test_the_programs_that_listen_are_these() -> None:
    listening = {name: len(listeners(entry)) for name, (_, entry) in SERVING.items()}
    assert listening == {
        "bigfleet all-in-one": 6,
        "bigfleet cluster-sim": 0,
        "bigfleet coordinator": 4,
        "bigfleet dashboard": 1,
        "bigfleet shard": 3,
        "bigfleet-fake-provider serve": 3,
        "bigfleet-fault-provider serve": 2,
        "bigfleet-hook-provider serve": 2,
        "bigfleet-operator run": 1,
        "bigfleet-unschedulable-pod-controller run": 1,
    }
    # Nothing else opens a port: commands that do not serve have no such option.
    assert not [name for name, (_, entry) in ALL.items() if name not in SERVING and listeners(entry)]
