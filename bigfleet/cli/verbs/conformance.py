"""`bigfleet conformance`: test any provider against the contract, and print its verdict.

Why: the author of a provider, in any language, must know before a shard relies on it.
Must never: change a machine without permission, or replace anything in the directory of reports but a regular file.
Rules: `providers#verdict`, `providers#conformance`, `packaging#given-files`; exit 0 only for CERTIFIED, 1 otherwise, 2 when the run could not be done.
"""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from bigfleet.cli.framework.command import CliCommand
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.errors import UsageError
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.framework.kinds import Cli, Dial, Duration, OptionalPath
from bigfleet.cli.framework.output import Column, Listing, colour_wanted, table
from bigfleet.cli.framework.settings import TlsFlags

if TYPE_CHECKING:  # gRPC takes longer to import than --help may
    from bigfleet.provider.conformance.report import ConformanceReport
    from bigfleet.provider.conformance.settings import ConformanceProfile, Launcher, RunSettings, Survey


class ConformanceSettings(TlsFlags, env_prefix="BIGFLEET_CONFORMANCE_"):
    """Flags of `bigfleet conformance`."""

    target: Annotated[Dial | None, Cli(variables=("BIGFLEET_PROVIDER_TARGET",))] = Field(
        default=None, description="provider to test; default: the process of --start"
    )
    profile: tuple[str, ...] = Field(
        default=("core", "cloud", "spot"),
        description="what the provider claims to be: core, cloud, spot, bare-metal (instead of core), fault, durable, scale",
    )
    seed: int = Field(default=1, description="seed of all randomness; the same seed gives the same calls")
    only: Annotated[tuple[str, ...], Cli(metavar="GLOB")] = Field(
        default=(),
        description="run only these behaviours, such as B303 or 'B3*'; the verdict is then INCOMPLETE",
    )
    extra: bool = Field(
        default=False, description="include X01 to X12 in the verdict, and run the long ones among them"
    )
    machines: Annotated[str, Cli(metavar="GLOB")] = Field(
        default="*", min_length=1, description="ids of the machines that may be changed"
    )
    yes: bool = Field(default=False, description="change machines without asking first")
    no_cleanup: bool = Field(default=False, description="do not clean up the machines after each behaviour")
    start: Annotated[str, Cli(metavar="CMD")] = Field(
        default="",
        description="command that starts the provider, with {port}, {state} and {seed_count}; for durable and scale",
    )
    fault_target: Dial | None = Field(
        default=None, description="endpoint that follows the fault convention; default: the built-in one"
    )
    fault_start: Annotated[str, Cli(metavar="CMD")] = Field(
        default="",
        description="command that starts such an endpoint with a transition timeout of 30s; for B1006",
    )
    substrate: Annotated[str, Cli(metavar="CMD")] = Field(
        default="",
        description="command with {verb} (reprice or remove) and {id} that changes the infrastructure of the provider",
    )
    scale_seed: int = Field(default=4000, ge=100, description="number of machines for the scale behaviours")
    soak: Duration = Field(default=8.0, description="duration of the scale behaviours")
    list: bool = Field(default=False, description="print all behaviours with their meaning, and exit")
    show: Annotated[str, Cli(metavar="ID")] = Field(
        default="", description="print the steps of one behaviour, and exit"
    )
    output: Annotated[Literal["table", "json", "junit"], Cli(short="o")] = Field(
        default="table", description="format of the output"
    )
    out: Annotated[OptionalPath, Cli(metavar="DIR")] = Field(
        default=None, description="directory for report.json, junit.xml, badge.json and report.html"
    )
    no_color: bool = Field(
        default=False,
        description="never use colour; NO_COLOR and output to a file or pipe have the same effect",
    )


def _conformance(settings: ConformanceSettings, console: Console) -> int:
    if settings.list:
        return _list(settings, console)
    if settings.show:
        return _show(settings, console)
    if settings.target is None and not settings.start:
        raise UsageError("--target: found nothing, allowed is host:port, or --start with a command")
    if not settings.yes and not console.stdin.isatty():
        raise UsageError("--yes: missing, and there is no terminal to ask whether machines may be changed")
    if settings.out is not None:
        _check_directory(settings.out)  # now rather than after the run
    return _test(settings, console)


def _list(settings: ConformanceSettings, console: Console) -> int:
    from bigfleet.provider.conformance.catalogue import listing

    rows = list(listing())
    if settings.output == "json":
        from json import dumps

        console.print(dumps({"behaviours": rows}, indent=2, ensure_ascii=False))
        return ExitCode.DONE
    colour = colour_wanted(console, no_color=settings.no_color)
    console.stdout.write(table(Listing("behaviours", _COLUMNS, rows), colour=colour))
    counts = [sum(str(row["id"]).startswith(letter) for row in rows) for letter in "ABX"]
    console.print(
        f"\n{counts[0]} baseline + {counts[1]} extension behaviours, and {counts[2]} additional ones"
    )
    return ExitCode.DONE


def _show(settings: ConformanceSettings, console: Console) -> int:
    from bigfleet.provider.conformance.catalogue import find

    behaviour = find(settings.show)
    needs = "; ".join(need.value for need in behaviour.needs)
    console.print(f"{behaviour.title} ({behaviour.counts_for}): {behaviour.meaning}\n\n{behaviour.steps}")
    if needs:
        console.print(f"\nNeeds {needs}.")
    if not behaviour.bare_metal:
        console.print("\nNot applicable to bare metal.")
    return ExitCode.DONE


def _test(settings: ConformanceSettings, console: Console) -> int:
    import asyncio

    from bigfleet.provider.conformance import render
    from bigfleet.provider.conformance.errors import ConformanceError
    from bigfleet.provider.conformance.report import BehaviourResult, RunVerdict
    from bigfleet.provider.conformance.run import run

    def print_result(result: BehaviourResult) -> None:
        if settings.output == "table":
            console.print(render.live_line(result))
            console.stdout.flush()

    with ExitStack() as stack:
        chosen = _chosen(settings, console, stack)
        try:
            report = asyncio.run(run(settings.target or "", chosen, print_result))
        except ConformanceError as error:
            raise UsageError(str(error)) from error
    forms = {"table": render.summary, "json": render.as_json, "junit": render.as_junit}
    console.stdout.write(f"{forms[settings.output](report).rstrip()}\n")
    if settings.out is not None:
        _write(settings.out, report)
    return ExitCode.DONE if report.verdict is RunVerdict.CERTIFIED else ExitCode.FAILURE


def _chosen(settings: ConformanceSettings, console: Console, stack: ExitStack) -> "RunSettings":
    from bigfleet.provider.conformance.settings import RunSizes, Timings
    from bigfleet.provider.conformance.system import (
        CommandLauncher,
        CommandSubstrate,
        private_directory,
        system_settings,
    )

    base = system_settings(tls=settings.tls_store(console.print_error, console.print_warning))
    directory = (
        Path(stack.enter_context(private_directory())) if settings.start or settings.fault_start else None
    )

    def launcher(command: str) -> "Launcher | None":
        if not command or directory is None:
            return None
        return CommandLauncher(command, base.net, base.clock, directory)

    return system_settings(
        net=base.net,
        profiles=_profiles(settings.profile),
        seed=settings.seed,
        only=settings.only,
        extra=settings.extra,
        machines=settings.machines,
        clean_up=not settings.no_cleanup,
        timings=Timings(soak_s=settings.soak),
        sizes=RunSizes(scale_seed=settings.scale_seed),
        fault_target=settings.fault_target or "",
        substrate=CommandSubstrate(settings.substrate) if settings.substrate else None,
        approve=lambda survey: settings.yes or _ask(console, survey),
        repeat_flags=_repeat_flags(settings),
        launcher=launcher(settings.start),
        fault_launcher=launcher(settings.fault_start),
    )


def _profiles(names: tuple[str, ...]) -> "tuple[ConformanceProfile, ...]":
    from bigfleet.provider.conformance.settings import ConformanceProfile

    try:
        return tuple(ConformanceProfile(name) for name in names)
    except ValueError:
        found = ",".join(names)
        raise UsageError(
            f"--profile: found {found!r}, allowed is one or more of {', '.join(ConformanceProfile)}"
        ) from None


def _ask(console: Console, survey: "Survey") -> bool:
    console.stdout.write(
        f"{survey.target} has {survey.machines} machines; this test will create, bind, drain and delete {survey.touchable} of "
        "them. Never run it on a provider that serves a fleet. Continue? [y/N] "
    )
    console.stdout.flush()
    return console.stdin.readline().strip().lower() in (b"y", b"yes")


def _repeat_flags(settings: ConformanceSettings) -> tuple[str, ...]:
    given = {
        "--start": settings.start,
        "--fault-target": settings.fault_target,
        "--fault-start": settings.fault_start,
        "--substrate": settings.substrate,
        "--tls-cert": settings.tls_cert,
        "--tls-key": settings.tls_key,
        "--tls-ca": settings.tls_ca,
    }
    return tuple(word for flag, value in given.items() if value for word in (flag, str(value)))


def _check_directory(directory: Path) -> None:
    from bigfleet.aio.given_files import UnfitFileError, check_replaceable
    from bigfleet.aio.system_disk import SystemDisk
    from bigfleet.provider.conformance.render import FILES

    disk = SystemDisk()
    if disk.exists(directory) and not disk.stat(directory).is_directory:
        raise UsageError(f"--out: {directory}: found no directory, allowed is a directory, or a new name")
    try:
        for name in FILES:
            check_replaceable(disk, directory / name)
    except UnfitFileError as error:
        raise UsageError(f"--out: {error}") from None


def _write(directory: Path, report: "ConformanceReport") -> None:
    from bigfleet.aio.disk import ensure_directory
    from bigfleet.aio.given_files import replace_given
    from bigfleet.aio.system_disk import SystemDisk
    from bigfleet.provider.conformance.render import all_files

    disk = SystemDisk()
    ensure_directory(disk, directory, 0o755)
    for name, content in all_files(report).items():
        replace_given(disk, directory / name, content.encode("utf-8", "replace"), 0o644)


_COLUMNS = (
    Column("ID", "id"),
    Column("NAME", "name"),
    Column("COUNTS FOR", "counts_for"),
    Column("MEANING", "meaning"),
)

CONFORMANCE = CliCommand(
    ConformanceSettings,
    _conformance,
    """Test a provider, in any language, against the contract: 27 baseline and 93 extension behaviours, and 12 additional
    ones. It uses only the wire contract. It creates, binds, drains and deletes machines, so it asks first and cleans up.

    The verdict is CERTIFIED when every required behaviour passed or does not apply, FAILED when one failed, INCOMPLETE
    when one could not be tested. Exit code 0 is CERTIFIED, 1 the other two, 2 a run that was not possible. A failure
    prints the exact calls with tokens, responses and codes, and the command that repeats it.""",
    (
        "bigfleet conformance --target 127.0.0.1:9000",
        "bigfleet conformance --target 127.0.0.1:9000 --profile bare-metal --machines 'test-*' --yes --out ./report",
        "bigfleet conformance --start 'my-provider --addr 127.0.0.1:{port} --state {state} --seed-count {seed_count}' --profile core,durable,scale --yes",
        "bigfleet conformance --list",
        "bigfleet conformance --show B303",
    ),
)
