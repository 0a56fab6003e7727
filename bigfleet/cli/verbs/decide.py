"""`bigfleet decide`: runs the production engine on a saved snapshot.

Why: a decision can be repeated, inspected and compared without a fleet.
Must never: print anything on standard output for a document that is refused.
Rules: `engine#snapshot-form`, `engine#snapshot-strict`, `engine#snapshot-decision`, `engine#snapshot-batch`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from bigfleet.cli.framework.command import CliCommand
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.errors import CommandError
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.framework.kinds import Cli
from bigfleet.cli.framework.output import Column, Listing, table_text, yaml_text
from bigfleet.cli.framework.settings import OutputFlags
from bigfleet.cli.verbs.documents import DocumentFlags, read_file

if TYPE_CHECKING:  # the engine imports numpy, which takes longer than --help may
    from bigfleet.document.snapshot import SnapshotDocument


class DecideSettings(DocumentFlags, OutputFlags, env_prefix="BIGFLEET_DECIDE_"):
    """Flags of `bigfleet decide`."""

    file: Annotated[Path, Cli(positional=True, metavar="FILE")] = Field(
        description="snapshot document; - is standard input, a name that ends in .gz is decompressed"
    )
    batch: bool = Field(
        default=False, description="one document per line, one decision per line; needs -o json"
    )


def _decide(settings: DecideSettings, console: Console) -> int:
    from bigfleet.document.snapshot import read_situation

    if settings.batch:
        return _decide_batch(settings, console)
    document = read_situation(read_file(settings.file, console, settings.max_document))
    console.stdout.write(_answer(settings, console, document))
    return ExitCode.DONE


def _answer(settings: DecideSettings, console: Console, document: "SnapshotDocument") -> str:
    from bigfleet.document.decisions import decision_document, write_decision
    from bigfleet.engine.cycle import decide_situation

    decision = decide_situation(document.situation)
    if settings.output == "json":
        return write_decision(document.situation, decision, document.places).decode()
    content = decision_document(document.situation, decision, document.places)
    if settings.output == "yaml":
        return yaml_text(content)
    return _tables(settings, console, content)


def _decide_batch(settings: DecideSettings, console: Console) -> int:
    from bigfleet.document.batch import read_batch, write_refusal
    from bigfleet.document.errors import DocumentError

    if settings.output != "json":
        raise CommandError(
            f"--output: found {settings.output!r}, allowed with --batch is json", ExitCode.USAGE
        )
    code = ExitCode.DONE
    for document in read_batch(read_file(settings.file, console, settings.max_document).splitlines()):
        if isinstance(document, DocumentError):
            code = ExitCode.USAGE
            console.stdout.write(write_refusal(document).decode())
        else:
            console.stdout.write(_answer(settings, console, document))
    return code


def _tables(settings: DecideSettings, console: Console, content: dict[str, Any]) -> str:
    actions = Listing("actions", _ACTION_COLUMNS, content["actions"])
    needs = Listing("needs", _NEED_COLUMNS, list(_need_rows(content)))
    return "\n".join(table_text(console, settings, listing) for listing in (actions, needs))


def _need_rows(content: dict[str, Any]) -> Iterator[dict[str, object]]:
    for place, need in enumerate(content["needs"]):
        deficit = " ".join(f"{name}={amount}" for name, amount in need["deficit"].items())
        yield {**need, "place": place, "deficit": deficit or None, "machines": len(need["claimed"])}


_ACTION_COLUMNS = (
    Column("ACTION", "kind"),
    Column("MACHINE", "machine"),
    Column("CLUSTER", "cluster"),
    Column("NEED", "need"),
    Column("GRACE_SECONDS", "grace_seconds"),
    Column("REASON", "reason"),
    Column("PROFILE", "fingerprint", wide=True),
)
_NEED_COLUMNS = (
    Column("NEED", "place"),
    Column("CLUSTER", "cluster"),
    Column("GROUP", "group", wide=True),
    Column("PRIORITY", "priority"),
    Column("MACHINES", "machines"),
    Column("DOMAIN", "domain"),
    Column("SHORT", "deficit"),
    Column("VERDICT", "reason"),
    Column("PROFILE", "fingerprint", wide=True),
)

DECIDE = CliCommand(
    DecideSettings,
    _decide,
    """Run the decision engine on a snapshot document, and print its actions and the verdict on every need. Nothing is
    executed. The same document gives the same result, with -o json byte for byte.

    For an invalid document the command prints the path of the error, ends with exit code 2, and prints nothing on standard
    output.""",
    (
        "bigfleet decide snapshot.json",
        "bigfleet decide -o json - < snapshot.json",
        "bigfleet decide --batch -o json snapshots.jsonl",
    ),
)
