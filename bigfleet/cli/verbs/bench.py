"""`bigfleet bench`: measure the engine on a generated fleet, and compare two measurements.

Why: a change of the engine, the interpreter or the machine must show its effect on every figure.
Must never: print figures of a run with wrong decisions; such a run ends with exit code 1 and one line.
Rules: `engine#bars`.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field

from bigfleet.aio.given_files import MIB, read_given
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.cli.framework.command import CliCommand
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.errors import CommandError
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.framework.kinds import Cli, OptionalPath
from bigfleet.cli.framework.output import Column, Listing, table_text, yaml_text
from bigfleet.cli.framework.settings import OutputFlags

if TYPE_CHECKING:  # the engine imports numpy, which takes longer than --help may
    from bigfleet.bench.compare import BenchComparison
    from bigfleet.bench.report import BenchReport, BenchResult


_REPORT_BYTES: Final = 16 * MIB  # a report has some hundred figures


class EngineSettings(OutputFlags, env_prefix="BIGFLEET_BENCH_ENGINE_"):
    """Flags of `bigfleet bench engine`."""

    profile: Annotated[str, Cli(metavar="NAME")] = Field(
        default="5k",
        min_length=1,
        description="generated fleet to measure: tiny, 5k, 50k, 500k, gang-heavy and others",
    )
    seed: int = Field(default=1, ge=-(2**63), lt=2**63, description="seed of the fleet and of its changes")
    only: Annotated[tuple[str, ...], Cli(metavar="NAME")] = Field(
        default=(), description="benchmark to run, instead of all; repeatable"
    )
    repetitions: int = Field(default=5, ge=1, le=1000, description="repetitions of each benchmark")
    out: OptionalPath = Field(default=None, description="also write the figures as JSON to this file")


class CompareSettings(OutputFlags, env_prefix="BIGFLEET_BENCH_COMPARE_"):
    """Flags of `bigfleet bench compare`."""

    before: Annotated[Path, Cli(positional=True, metavar="BEFORE")] = Field(
        description="figures of an earlier run, as `bench engine -o json` printed them"
    )
    after: Annotated[Path, Cli(positional=True, metavar="AFTER")] = Field(
        description="figures of a later run on the same profile and seed"
    )
    fail_over: Annotated[float | None, Cli(metavar="RATIO")] = Field(
        default=None,
        gt=0,
        description="exit 1 when a figure is more than this many times the earlier one, or the decisions differ",
    )


def _engine(settings: EngineSettings, console: Console) -> int:
    from bigfleet.bench.meter import BenchMeter
    from bigfleet.bench.plans import names_of, plan_named
    from bigfleet.bench.report import write_report
    from bigfleet.bench.run import run

    plan = plan_named(settings.profile)
    names = names_of(plan, settings.only)
    if settings.out is not None:
        settings.out.touch()  # fail now rather than after an hour of measuring

    def report_progress(result: "BenchResult") -> None:
        if console.stderr.isatty():
            console.stderr.write(f"{result.name}: {result.units:g} units\n")

    report = run(plan, names, settings.seed, BenchMeter(settings.repetitions), report_progress)
    if settings.out is not None:
        # Into what is there, which may be a device: a file that is renamed would take its place.
        settings.out.write_bytes(write_report(report))
    if settings.output == "json":
        console.stdout.write(write_report(report).decode())
    elif settings.output == "yaml":
        console.stdout.write(yaml_text(report.document()))
    else:
        console.stdout.write(_report_tables(settings, console, report))
    return ExitCode.DONE


def _compare(settings: CompareSettings, console: Console) -> int:
    from bigfleet.bench.compare import compare

    comparison = compare(_read(settings.before), _read(settings.after))
    if settings.output == "json":
        from bigfleet.document.canonical import many_lines

        console.stdout.write(many_lines(_comparison_document(comparison)).decode())
    elif settings.output == "yaml":
        console.stdout.write(yaml_text(_comparison_document(comparison)))
    else:
        console.stdout.write(_comparison_tables(settings, console, comparison))
    if settings.fail_over is None:
        return ExitCode.DONE
    over = comparison.over(settings.fail_over)
    for row in over:
        console.print_error(
            f"{row.name}: {row.ratio:.3g} times the earlier figure, allowed is {settings.fail_over:g}"
        )
    if comparison.answers_differ:
        console.print_error("actions_sha256: the decisions differ, so the figures cannot be compared")
    return ExitCode.FAILURE if over or comparison.answers_differ else ExitCode.DONE


def _read(path: Path) -> "BenchReport":
    from bigfleet.bench.report import read_report
    from bigfleet.document.errors import DocumentError

    content = read_given(SystemDisk(), path, _REPORT_BYTES)
    try:
        return read_report(content)
    except DocumentError as error:
        raise CommandError(f"{path}: {error}", ExitCode.USAGE) from None


def _report_tables(settings: OutputFlags, console: Console, report: "BenchReport") -> str:
    rows = [
        {
            "name": result.name,
            "units": _shown(result.units),
            "cpu": _shown(result.cpu_ms.median),
            "cpu_p99": _shown(result.cpu_ms.p99),
            "wall": _shown(result.wall_ms.median),
            "wall_p99": _shown(result.wall_ms.p99),
            "repetitions": result.repetitions,
        }
        for result in report.results
    ]
    listing = Listing("results", _RESULT_COLUMNS, rows)
    shown = table_text(console, settings, listing)
    return (
        f"profile {report.profile}, seed {report.seed}, Python {report.python}, NumPy {report.numpy}; "
        f"one unit is {report.unit_ms:g} ms here\n\n{shown}\n"
        f"{report.bytes_per_machine:g} bytes per machine; actions {report.actions_sha256[:16]}\n"
    )


def _comparison_document(comparison: "BenchComparison") -> dict[str, object]:
    return {
        "results": [
            {
                "name": row.name,
                "before": row.before,
                "after": row.after,
                "ratio": None if row.ratio is None else round(row.ratio, 4),
                "mark": row.mark.value,
            }
            for row in comparison.rows
        ],
        "answers": comparison.answers.value,
    }


def _comparison_tables(settings: OutputFlags, console: Console, comparison: "BenchComparison") -> str:
    rows = [
        {
            "name": row.name,
            "before": _shown(row.before),
            "after": _shown(row.after),
            "ratio": None if row.ratio is None else f"{row.ratio:.3f}",
            "mark": row.mark.value,
        }
        for row in comparison.rows
    ]
    shown = table_text(console, settings, Listing("results", _COMPARISON_COLUMNS, rows))
    return f"{shown}\nanswers: {comparison.answers.value}\n"


def _shown(figure: float | None) -> str | None:
    return None if figure is None else f"{figure:g}"


_RESULT_COLUMNS = (
    Column("BENCHMARK", "name"),
    Column("UNITS", "units"),
    Column("CPU_MS", "cpu"),
    Column("CPU_P99_MS", "cpu_p99"),
    Column("WALL_MS", "wall", wide=True),
    Column("WALL_P99_MS", "wall_p99", wide=True),
    Column("REPETITIONS", "repetitions", wide=True),
)
_COMPARISON_COLUMNS = (
    Column("FIGURE", "name"),
    Column("BEFORE", "before"),
    Column("AFTER", "after"),
    Column("RATIO", "ratio"),
    Column("MARK", "mark"),
)

ENGINE = CliCommand(
    EngineSettings,
    _engine,
    """Generate a fleet of the given profile, measure the engine and the decoding of listings on it, and print CPU times, also
    in units: a unit is a fixed piece of work that runs before and after each repetition, so that figures of different
    machines can be compared. Every decision is checked against a decision without state from earlier cycles.

    It runs in one process and needs about 0.6 GB for 50k and 1.2 GB for 500k, more for the benchmarks in which every machine
    is unique.""",
    (
        "bigfleet bench engine --profile 5k",
        "bigfleet bench engine --profile 50k -o json --out before.json",
        "bigfleet bench engine --only full_pass,zero_change",
    ),
)
COMPARE = CliCommand(
    CompareSettings,
    _compare,
    """Compare two files that `bench engine` wrote for the same profile and seed, figure by figure in units. A figure
    that is more than a fifth higher is worse, more than a fifth lower is better, otherwise the same.""",
    (
        "bigfleet bench compare before.json after.json",
        "bigfleet bench compare --fail-over 1.2 before.json after.json",
    ),
)
