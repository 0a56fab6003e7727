"""`bigfleet what-if`: runs the production engine on a snapshot with edits and prints the difference.

Why: shows the effect of more machines, other prices, another priority or a lost zone without changing a fleet.
Must never: print anything on standard output for a refused document or edit, or compute in the shard: the shard sends its
snapshot, and the engine runs here.
Rules: `dashboard#what-if`.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from bigfleet.cli.framework.command import CliCommand
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.errors import CommandError
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.framework.kinds import SHARD, Cli, Dial, Duration
from bigfleet.cli.framework.output import Column, Listing, table_text, yaml_text
from bigfleet.cli.framework.settings import OutputFlags
from bigfleet.cli.verbs.documents import STDIN, DocumentFlags, read_file
from bigfleet.cli.verbs.live_shard import SnapshotFlags, read_snapshot
from bigfleet.explain.amounts import amounts_text
from bigfleet.model.action import ActionKind
from bigfleet.model.errors import InvalidFieldError

if TYPE_CHECKING:  # the engine imports numpy, which takes longer than --help may
    from bigfleet.document.compare import Comparison, MachineChange, MachineSide, NeedSide, Totals
    from bigfleet.document.edits import Edit
    from bigfleet.explain.horizon import Horizon
    from bigfleet.explain.what_if import WhatIfResult

_IDS_SHOWN = 3
_DAY_S = 86_400


class WhatIfSettings(SnapshotFlags, OutputFlags, env_prefix="BIGFLEET_WHAT_IF_"):
    """Flags of `bigfleet what-if`."""

    file: Annotated[Path | None, Cli(positional=True, metavar="SNAPSHOT")] = Field(
        default=None,
        description="snapshot document; - is standard input, a name that ends in .gz is decompressed",
    )
    shard: Annotated[Dial | None, SHARD] = Field(
        default=None, description="in place of a document: gRPC address of a running shard, host:port"
    )
    edit: tuple[Path, ...] = Field(
        default=(), description="file of edits, YAML or JSON; repeatable, applied in order"
    )
    until_quiet: bool = Field(
        default=False,
        description="execute every decision and decide again until nothing is left to do, at most 20 cycles; "
        "without it one cycle is compared",
    )
    create_time: Duration = Field(
        default=0.0,
        ge=0,
        le=_DAY_S,
        description="time the provider takes to create a machine; implies --until-quiet",
    )
    drain_time: Duration = Field(
        default=0.0,
        ge=0,
        le=_DAY_S,
        description="time a machine takes to drain; implies --until-quiet",
    )
    print_snapshot: bool = Field(
        default=False,
        description="print the edited snapshot instead of the difference; with --until-quiet the final snapshot",
    )


def _what_if(settings: WhatIfSettings, console: Console) -> int:
    from bigfleet.document.edits import apply_edits
    from bigfleet.document.snapshot import read_situation, write_document
    from bigfleet.explain.horizon import run_to_horizon
    from bigfleet.explain.redecide import Redecider
    from bigfleet.explain.what_if import run_what_if

    if [settings.file, *settings.edit].count(STDIN) > 1:
        raise CommandError("--edit: found -, allowed is standard input for one file only", ExitCode.USAGE)
    horizon = _horizon(settings)
    document = read_situation(read_snapshot(settings, settings.file, settings.shard, console))
    edits = read_edit_files(settings, settings.edit, console)
    if settings.print_snapshot:
        edited = apply_edits(document, edits).document
        if horizon.until_quiet:
            edited = run_to_horizon(edited, horizon, Redecider()).side.document
        console.stdout.write(write_document(edited).decode())
        return ExitCode.DONE
    if not edits and not horizon.until_quiet and settings.output in ("table", "wide"):
        console.print("no edit was given, so nothing differs; --edit FILE gives some")
        return ExitCode.DONE
    console.stdout.write(_answer(settings, console, run_what_if(document, edits, horizon)))
    return ExitCode.DONE


def _horizon(settings: WhatIfSettings) -> "Horizon":
    from bigfleet.explain.horizon import Horizon

    timed = settings.create_time > 0 or settings.drain_time > 0
    return Horizon(settings.until_quiet or timed, settings.create_time, settings.drain_time)


def read_edit_files(settings: DocumentFlags, paths: Sequence[Path], console: Console) -> "list[Edit]":
    """Return the edits of the files, in order; an error names its file."""
    from bigfleet.document.edits import read_edits

    edits: list[Edit] = []
    for path in paths:
        try:
            edits.extend(read_edits(read_file(path, console, settings.max_document)))
        except InvalidFieldError as error:
            # There are several files, so the path inside the document is not enough.
            raise CommandError(f"{path}: {error}", ExitCode.USAGE) from None
    return edits


def _answer(settings: WhatIfSettings, console: Console, answer: "WhatIfResult") -> str:
    from bigfleet.document.canonical import one_line

    if settings.output == "json":
        return one_line(answer.document()).decode()
    if settings.output == "yaml":
        return yaml_text(answer.document())
    comparison = answer.comparison
    return "\n".join(
        [
            f"{_summary(comparison)}\n{_way(answer)}",
            *(table_text(console, settings, listing) for listing in _listings(comparison) if listing.rows),
        ]
    )


def _summary(comparison: "Comparison") -> str:
    from bigfleet.document.compare import NeedChangeKind

    if comparison.same:
        return "no difference"
    counts = {
        change: sum(len(item.numbers) for item in comparison.needs if item.change is change)
        for change in NeedChangeKind
    }
    changes = [_change_text(change.value, count) for change, count in counts.items() if count]
    before, after = comparison.before.costs.total, comparison.after.costs.total
    money = f"${before:.2f}/h stays" if before == after else f"${before:.2f}/h becomes ${after:.2f}/h"
    return "; ".join([", ".join(changes) or "no need changes", money])


def _change_text(change: str, count: int) -> str:
    return f"{_needs(count)} {change if count == 1 else change.replace('becomes', 'become')}"


def _way(answer: "WhatIfResult") -> str:
    """Return how many cycles each side took, with --until-quiet."""
    if not answer.horizon.until_quiet:
        return ""
    ends = [
        f"{name} {'quiet after' if side.quiet else 'not yet quiet after'} "
        f"{side.cycles} {'cycle' if side.cycles == 1 else 'cycles'}, {side.seconds:g} s"
        for name, side in (("before", answer.before), ("after", answer.after))
    ]
    return "; ".join(ends) + "\n"


def _needs(count: int) -> str:
    return "1 need" if count == 1 else f"{count} needs"


def _listings(comparison: "Comparison") -> Iterator[Listing]:
    yield Listing("needs", _NEED_COLUMNS, list(_need_rows(comparison)))
    yield Listing("machines", _MACHINE_COLUMNS, list(_machine_rows(comparison.machines)))
    if not comparison.same:
        yield Listing("figures", _FIGURE_COLUMNS, list(_figures(comparison)))


def _need_rows(comparison: "Comparison") -> Iterator[dict[str, object]]:
    for change in comparison.needs:
        shown = change.after or change.before
        if shown is not None:
            yield {
                "needs": list(change.numbers),
                "cluster": shown.need.cluster,
                "group": shown.need.group or None,
                "priority": shown.need.profile.priority,
                "change": change.change.value,
                "before": _fares(change.before),
                "after": _fares(change.after),
                "fingerprint": shown.need.profile.fingerprint,
            }


def _fares(side: "NeedSide | None") -> str | None:
    if side is None:
        return None
    where = "" if side.domain is None else f" in {side.domain}"
    if side.satisfied:
        return f"satisfied, {len(side.machines)} machines{where}"
    waits = f", {side.victims} preempted" if side.victims else ""
    return f"short {amounts_text(side.deficit)}{where}{waits}"


def _machine_rows(changes: "Sequence[MachineChange]") -> list[dict[str, object]]:
    """Return one row for all equal machines with the same change."""
    rows: dict[tuple[object, ...], list[str]] = {}
    for change in changes:
        side = change.after or change.before
        if side is not None:
            shape = side.machine.shape
            key = (
                shape.instance_type or None,
                shape.zone or None,
                shape.capacity_type.label,
                f"{shape.price_per_hour:g}",
                _treated(change.before),
                _treated(change.after),
            )
            rows.setdefault(key, []).append(change.machine_id)
    names = ("type", "zone", "capacity", "price", "before", "after")
    return [
        {**dict(zip(names, key, strict=True)), "count": len(ids), "machines": _some(ids)}
        for key, ids in rows.items()
    ]


def _some(ids: Sequence[str]) -> str:
    more = f",+{len(ids) - _IDS_SHOWN}" if len(ids) > _IDS_SHOWN else ""
    return ",".join(ids[:_IDS_SHOWN]) + more


def _treated(side: "MachineSide | None") -> str:
    if side is None:
        return "not there"
    held = f" for {side.cluster}" if side.cluster else ""
    if side.action in (ActionKind.PREEMPT, ActionKind.RECLAIM):
        return f"{side.action.value} from {side.machine.cluster}"
    if side.action is not None:
        return f"{side.action.value}{held}"
    return f"{side.machine.state.label}{held}" if held else f"{side.machine.state.label}, free"


def _figures(comparison: "Comparison") -> Iterator[dict[str, object]]:
    before, after = _figures_of(comparison.before), _figures_of(comparison.after)
    kept = ("$/h in all", "needs short")
    for name in {**before, **after}:
        first, second = before.get(name, 0), after.get(name, 0)
        if first != second or name in kept:
            difference = second - first
            yield {
                "figure": name,
                "before": _number(first),
                "after": _number(second),
                "difference": f"+{_number(difference)}" if difference > 0 else _number(difference),
            }


def _figures_of(side: "Totals") -> dict[str, float]:
    from bigfleet.model.quantity import NANO

    costs = side.costs
    return {
        **{f"{kind.value} actions": count for kind, count in side.actions.items()},
        "$/h serving": costs.serving,
        "$/h waiting": costs.waiting,
        "$/h in all": costs.total,
        "$/h exposed to interruption": costs.exposure,
        "pinned machines at risk": costs.pinned_at_risk,
        "needs short": sum(side.shortfalls.values()),
        **{f"needs short, {name}": count for name, count in side.shortfalls.items()},
        **{f"{name} missing": amount / NANO for name, amount in side.missing.items()},
    }


def _number(value: float) -> str:
    return f"{round(value, 6):g}" if abs(value) < 1e5 else f"{value:.0f}"


_NEED_COLUMNS = (
    Column("NEED", "needs"),
    Column("CLUSTER", "cluster"),
    Column("GROUP", "group"),
    Column("PRIORITY", "priority"),
    Column("CHANGE", "change"),
    Column("BEFORE", "before"),
    Column("AFTER", "after"),
    Column("PROFILE", "fingerprint", wide=True),
)
_MACHINE_COLUMNS = (
    Column("COUNT", "count"),
    Column("TYPE", "type"),
    Column("ZONE", "zone"),
    Column("CAPACITY", "capacity", wide=True),
    Column("$/H", "price"),
    Column("BEFORE", "before"),
    Column("AFTER", "after"),
    Column("MACHINES", "machines"),
)
_FIGURE_COLUMNS = (
    Column("FIGURE", "figure"),
    Column("BEFORE", "before"),
    Column("AFTER", "after"),
    Column("DIFFERENCE", "difference"),
)

WHAT_IF = CliCommand(
    WhatIfSettings,
    _what_if,
    """Run the decision engine on a snapshot document without and with edits, and print the difference: needs, machines,
    actions, dollars per hour. Compares one cycle or, with --until-quiet, the final states. Nothing is executed in the fleet.

    For an invalid document or edit the command prints the path of the error, ends with exit code 2, and prints nothing on
    standard output. Without an edit there is no difference.""",
    (
        "bigfleet what-if snapshot.json --edit more-machines.yaml",
        "bigfleet what-if snapshot.json --edit lost-zone.yaml -o json",
        "bigfleet what-if snapshot.json --edit more-demand.yaml --create-time 3m --drain-time 30s",
        "bigfleet what-if snapshot.json --edit lost-zone.yaml --print-snapshot | bigfleet decide -",
    ),
)
