"""A program of our own with a command that has every kind of setting, run without a process."""

import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Annotated

import pytest
from pydantic import Field

from bigfleet.cli.framework.command import CliCommand
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.dispatch import dispatch
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.framework.kinds import ByteSize, Cli, Dial, Duration, HttpListen, Listen
from bigfleet.cli.framework.output import OutputRecord, write
from bigfleet.cli.framework.settings import Flags, OutputFlags, ProcessFlags, TlsFlags
from bigfleet.cli.framework.tree import CliProgram, CommandRow
from bigfleet.transport.address import ListenAddress

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
Run = Callable[..., tuple[int, str, str]]


class ServeSettings(ProcessFlags, TlsFlags, OutputFlags, env_prefix="BIGFLEET_SERVE_"):
    listen: Listen = Field(default=ListenAddress("127.0.0.1", 7780), description="gRPC address")
    metrics_addr: HttpListen = Field(default=ListenAddress("127.0.0.1", 8780), description="HTTP address")
    provider_addr: Dial | None = Field(default=None, description="provider to dial")
    cycle_interval: Duration = Field(default=10.0, description="time between cycles")
    audit_max_bytes: ByteSize = Field(
        default=100 * 2**20, description="size at which the audit file is rotated"
    )
    reclaim_cap_fraction: float = Field(default=0.05, ge=0, le=1, description="per cycle; 0 = no cap")
    dry_run: bool = Field(default=False, description="decide and report, touch nothing")
    phase_log: Annotated[bool, Cli(variables=("BIGFLEET_PHASEDUMP",))] = Field(
        default=False, description="log phases"
    )
    node_id: Annotated[str, Cli(aliases=("id",))] = Field(default="node-1", description="id")
    scrape: tuple[str, ...] = Field(default=(), description="metrics endpoints")
    dsn: Annotated[str, Cli(masked=True)] = Field(default="", description="where to report")
    boot_secret_file: Path | None = Field(default=None, description="file with the secret")


class NeedySettings(Flags, env_prefix="BIGFLEET_NEEDY_"):
    cluster_id: str = Field(min_length=1, description="id of the cluster")


class FailSettings(Flags, env_prefix="BIGFLEET_SERVE_FAIL_"):
    how: Annotated[str, Cli(positional=True, metavar="HOW")] = Field(description="which way to fail")


def _serve(settings: ServeSettings, console: Console) -> int:
    write(
        console,
        settings,
        OutputRecord({name: str(getattr(settings, name)) for name in type(settings).model_fields}),
    )
    return ExitCode.DONE


def _fail(settings: FailSettings, console: Console) -> int:
    failures: Mapping[str, BaseException] = {
        "defect": ZeroDivisionError("division\nby zero"),
        "pipe": BrokenPipeError(),
        "disk": PermissionError(13, "Permission denied", "/data"),
        "interrupt": KeyboardInterrupt(),
    }
    raise failures[settings.how]


def _needy(settings: NeedySettings, console: Console) -> int:
    console.print(settings.cluster_id)
    return ExitCode.DONE


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> CliProgram:
    module = ModuleType("sample_commands")
    vars(module)["SERVE"] = CliCommand(ServeSettings, _serve, "Serve something.", ("sample serve --dry-run",))
    vars(module)["NEEDY"] = CliCommand(NeedySettings, _needy, "Need something.")
    vars(module)["FAIL"] = CliCommand(FailSettings, _fail, "Fail.")
    monkeypatch.setitem(sys.modules, "sample_commands", module)
    return CliProgram(
        name="sample",
        summary="A program for tests.",
        rows=(
            CommandRow("serve", "serve something", "sample_commands:SERVE"),
            CommandRow("needy", "need something", "sample_commands:NEEDY"),
            CommandRow("tools", "a group"),
            CommandRow("tools fail", "fail in some way", "sample_commands:FAIL"),
        ),
        examples=("sample serve",),
    )


@pytest.fixture
def run(program: CliProgram) -> Run:
    """Run the sample program and return exit code, standard output and standard error."""

    def call(*argv: str, environ: Mapping[str, str] | None = None) -> tuple[int, str, str]:
        console = Console(program, StringIO(), StringIO(), environ or {}, lambda: NOW)
        code = dispatch(console, argv)
        assert isinstance(console.stdout, StringIO)
        assert isinstance(console.stderr, StringIO)
        return code, console.stdout.getvalue(), console.stderr.getvalue()

    return call
