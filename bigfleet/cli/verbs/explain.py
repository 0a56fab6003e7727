"""`bigfleet explain`: explains the decision on a need or a machine, and what would change it.

Must never: print anything on standard output for a refused document, or print a change that was not tried.
Rules: `dashboard#explain`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from bigfleet.cli.framework.command import CliCommand
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.errors import UsageError
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.framework.kinds import SHARD, Cli, Dial
from bigfleet.cli.framework.output import Listing, table_text, yaml_text
from bigfleet.cli.framework.settings import OutputFlags
from bigfleet.cli.verbs.live_shard import SnapshotFlags, ask, read_snapshot
from bigfleet.cli.verbs.what_if import read_edit_files
from bigfleet.explain.tables import machine_listings, machine_title, need_listings, need_title

if TYPE_CHECKING:  # gRPC takes longer to import than --help may
    from bigfleet.aio.net import Channel


class ExplainSettings(SnapshotFlags, OutputFlags, env_prefix="BIGFLEET_EXPLAIN_"):
    """Flags of `bigfleet explain`."""

    file: Annotated[Path | None, Cli(positional=True, metavar="SNAPSHOT")] = Field(
        default=None,
        description="snapshot document; - is standard input, a name that ends in .gz is decompressed",
    )
    shard: Annotated[Dial | None, SHARD] = Field(
        default=None, description="in place of a document: gRPC address of a running shard, host:port"
    )
    need: str = Field(
        default="", description="number of a need in the document, or its cluster, or cluster/group"
    )
    machine: str = Field(default="", description="id of a machine")
    edit: tuple[Path, ...] = Field(
        default=(), description="files of edits to apply first, as in bigfleet what-if"
    )
    quick: bool = Field(default=False, description="do not search for changes that would satisfy the need")


def _explain(settings: ExplainSettings, console: Console) -> int:
    if bool(settings.need) == bool(settings.machine):
        found = "both" if settings.need else "neither"
        raise UsageError(f"--need, --machine: found {found}, allowed is one of the two")
    if settings.shard is not None and settings.file is None and not settings.edit:
        content, tried = _asked(settings, settings.shard, console)
    else:
        content, tried = _content(settings, console), not settings.quick
    if settings.output == "json":
        console.print(json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")))
    elif settings.output == "yaml":
        console.stdout.write(yaml_text(content))
    else:
        console.stdout.write(_text(settings, console, content, quick=not tried))
    return ExitCode.DONE


def _content(settings: ExplainSettings, console: Console) -> dict[str, Any]:
    # Imported here: the engine imports numpy, which takes longer than --help may.
    from bigfleet.document.snapshot import read_situation
    from bigfleet.explain.what_if import explain_document

    document = read_situation(read_snapshot(settings, settings.file, settings.shard, console))
    edits = read_edit_files(settings, settings.edit, console)
    return explain_document(
        document, edits, need=settings.need, machine=settings.machine, quick=settings.quick, prefix="--"
    )


def _asked(settings: ExplainSettings, address: str, console: Console) -> tuple[dict[str, Any], bool]:
    """Return the shard's own explanation of its last cycle, and whether the shard tried changes."""
    content, tried = ask(settings, address, console, lambda channel: _explained(channel, settings))
    if settings.need and not tried and not settings.quick:
        console.print_error(
            "the fleet is too large to try changes in the shard; save it with bigfleet snapshot and run explain on the "
            "saved document"
        )
    return content, tried


async def _explained(channel: "Channel", settings: ExplainSettings) -> tuple[dict[str, Any], bool]:
    from bigfleet.insight.v1 import insight_pb2 as pb
    from bigfleet.transport.shard_reading import EXPLAIN_MACHINE, EXPLAIN_NEED

    if settings.machine:
        of_machine = pb.ExplainMachineRequest(machine=settings.machine)
        machine = await channel.unary(EXPLAIN_MACHINE, of_machine, timeout_s=settings.timeout)
        return json.loads(machine.message.document), False
    of_need = pb.ExplainNeedRequest(need=settings.need, quick=settings.quick)
    need = await channel.unary(EXPLAIN_NEED, of_need, timeout_s=settings.timeout)
    return json.loads(need.message.document), need.message.changes_tried


def _text(settings: ExplainSettings, console: Console, content: Mapping[str, Any], *, quick: bool) -> str:
    wide = settings.output == "wide"
    title, listings = (
        (machine_title(content), machine_listings(content))
        if settings.machine
        else (need_title(content), need_listings(content, quick=quick))
    )
    parts = [f"{title}\n{content['sentence']}\n"]
    parts += [table_text(console, settings, _clipped(listing, wide)) for listing in listings]
    return "\n".join(parts)


_CELL = 80  # longest cell; only names can be longer


def _clipped(listing: Listing, wide: bool) -> Listing:
    """Shorten long names, so that the table fits the screen."""
    if wide:
        return listing
    return Listing(listing.name, listing.columns, list(_short_rows(listing.rows)))


def _short_rows(rows: Sequence[Mapping[str, object]]) -> Iterator[Mapping[str, object]]:
    for row in rows:
        yield {
            key: f"{value[: _CELL - 1]}…" if isinstance(value, str) and len(value) > _CELL else value
            for key, value in row.items()
        }


EXPLAIN = CliCommand(
    ExplainSettings,
    _explain,
    """Explain the decision on one need or one machine of a snapshot document or of a running shard: what was chosen, the next
    best choice, which machines were refused and why, and which changes would satisfy the need. Every change has been tried
    on the engine; with -o yaml it is printed as edits for bigfleet what-if.

    For invalid input the command prints one line, ends with exit code 2, and prints nothing on standard output.""",
    (
        "bigfleet explain snapshot.json --need 3",
        "bigfleet explain snapshot.json --need train/llm-7 -o yaml",
        "bigfleet explain snapshot.json --machine gpu-0001",
        "bigfleet explain --shard shard-0:7780 --need train/llm-7",
    ),
)
