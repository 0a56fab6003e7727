"""`bigfleetctl snapshot save`, `restore`, `inspect` and `extract`: backups of the coordinator's tables.

Why: the runbook for lost disks uses these four, so each must refuse whatever would cause more damage.
Must never: leave an incomplete archive under the given name, replace anything there but a regular file, write into a directory
that a process uses, or restore an archive with a wrong checksum.
Rules: `coordinator#snapshots`, `coordinator#bigfleetctl`, `packaging#given-files`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from bigfleet.cli.bigfleetctl.output import done, for_programs
from bigfleet.cli.bigfleetctl.settings import CtlFlags
from bigfleet.cli.framework.command import CliCommand
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.errors import CommandError, UsageError
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.framework.kinds import Cli
from bigfleet.cli.framework.output import OutputRecord, write

if TYPE_CHECKING:  # gRPC and the coordinator take longer to import than --help may
    from bigfleet.cli.bigfleetctl.client import LeaderConnection
    from bigfleet.coordinator.archive import Archive

_Archive = Annotated[Path, Cli(positional=True, metavar="FILE|DIR")]
_File = Annotated[Path, Cli(positional=True, metavar="FILE")]
_DataDir = Annotated[Path, Cli(metavar="DIR")]


class SaveSettings(CtlFlags, env_prefix="BIGFLEETCTL_"):
    """Flags of `bigfleetctl snapshot save`."""

    file: _File = Field(
        description="archive to write; an existing regular file is replaced when the new one is complete"
    )


class RestoreSettings(CtlFlags, env_prefix="BIGFLEETCTL_"):
    """Flags of `bigfleetctl snapshot restore`."""

    archive: _Archive = Field(description="archive, or exported directory")
    data_dir: _DataDir = Field(description="data directory of the stopped replica")
    node_id: Annotated[str, Cli(aliases=("id",))] = Field(
        min_length=1, description="--id of the replica that will start from it"
    )
    raft_advertise: Annotated[str, Cli(metavar="ADDRESS")] = Field(
        default="",
        description="Raft address of that replica; only checked, since replicas derive it from their flags",
    )
    force: bool = Field(default=False, description="replace what is in the directory")


class InspectSettings(CtlFlags, env_prefix="BIGFLEETCTL_"):
    """Flags of `bigfleetctl snapshot inspect`."""

    archive: _Archive = Field(description="archive, or exported directory")


class ExtractSettings(CtlFlags, env_prefix="BIGFLEETCTL_"):
    """Flags of `bigfleetctl snapshot extract`."""

    data_dir: _DataDir = Field(description="data directory of the stopped replica")
    file: _File = Field(description="archive to write; an existing regular file is replaced")


def _save(settings: SaveSettings, console: Console) -> int:
    from bigfleet.cli.bigfleetctl.client import run_with
    from bigfleet.coordinator.archive import join_archive
    from bigfleet.transport.coordinator import SNAPSHOT_SAVE
    from bigfleet.v1alpha1 import coordinator_pb2 as pb

    _check_target(settings.file)

    async def ask(ctl: "LeaderConnection") -> int:
        meta, state = b"", bytearray()
        async for chunk in ctl.leader.server_stream(SNAPSHOT_SAVE, pb.SnapshotSaveRequest()):
            meta = meta or chunk.meta_json
            state += chunk.data
        with _exit_codes():
            _write(settings.file, join_archive(meta, bytes(state)), console, settings, "saved snapshot")
        return ExitCode.DONE

    return run_with(settings, console, ask)


def _extract(settings: ExtractSettings, console: Console) -> int:
    from bigfleet.aio.system_disk import SystemDisk
    from bigfleet.coordinator.offline import extract

    _check_target(settings.file)
    with _exit_codes():
        now_ns = int(console.now().timestamp() * 1e9)
        archive = extract(SystemDisk(), settings.data_dir, now_ns)
        _write(settings.file, archive, console, settings, "extracted snapshot")
    return ExitCode.DONE


def _check_target(file: Path) -> None:
    """Refuse, before anything is fetched, a name that leads to something other than a regular file."""
    from bigfleet.aio.given_files import UnfitFileError, check_replaceable
    from bigfleet.aio.system_disk import SystemDisk

    try:
        check_replaceable(SystemDisk(), file)
    except UnfitFileError as error:
        raise UsageError(f"FILE: {error}") from None


def _write(file: Path, archive: "Archive", console: Console, settings: CtlFlags, what: str) -> None:
    from bigfleet.aio.given_files import replace_given
    from bigfleet.aio.system_disk import SystemDisk
    from bigfleet.coordinator.archive import pack

    packed = pack(archive)
    replace_given(SystemDisk(), file, packed)
    meta = archive.meta
    wire = {
        "index": meta.index,
        "term": meta.term,
        "file": str(file),
        "bytes": len(packed),
        "sha256": archive.sha256,
    }
    text = f"{what} index={meta.index} term={meta.term} to {file}"
    done(console, settings, f"{text}\nbytes={len(packed)} sha256={archive.sha256}", wire)


def _restore(settings: RestoreSettings, console: Console) -> int:
    from bigfleet.aio.ids import SystemIds
    from bigfleet.aio.system_disk import SystemDisk
    from bigfleet.coordinator.offline import read_archive, restore

    _check_address(settings)
    disk = SystemDisk()
    with _exit_codes():
        archive = read_archive(disk, settings.archive)
        identity = restore(
            disk,
            archive,
            settings.data_dir,
            node_id=settings.node_id,
            ids=SystemIds(),
            force=settings.force,
        )
    meta = archive.meta
    wire = {
        "index": meta.index,
        "term": meta.term,
        "data_dir": str(settings.data_dir),
        "node_id": identity.node_id,
        "cluster_id": identity.cluster_id,
        "incarnation": identity.incarnation,
    }
    text = (
        f"restored snapshot index={meta.index} term={meta.term} into {settings.data_dir} "
        f"as single-voter {identity.node_id}"
    )
    steps = (
        "next:",
        f"  1. empty the data directories of all other replicas; only {identity.node_id} may have one",
        "  2. start all replicas with their usual flags; the others join as learners and become voters",
        "  3. repeat bigfleetctl status until it shows every replica and a report from every shard",
        "  4. repeat domain assignments that were made after the snapshot",
    )
    done(console, settings, "\n".join((text, *steps)), wire)
    return ExitCode.DONE


def _check_address(settings: RestoreSettings) -> None:
    """Refuse an address that a replica with this id cannot have, since the mistake would show up much later."""
    from ipaddress import ip_address

    from bigfleet.transport.address import parse_listen

    if not settings.raft_advertise:
        return
    host = parse_listen(settings.raft_advertise, "--raft-advertise").host
    try:
        ip_address(host)
    except ValueError:
        if host != settings.node_id and not host.startswith(f"{settings.node_id}."):
            raise UsageError(
                f"--raft-advertise: found {settings.raft_advertise!r}, allowed is an address that begins with {settings.node_id}."
            ) from None


def _inspect(settings: InspectSettings, console: Console) -> int:
    from bigfleet.aio.system_disk import SystemDisk
    from bigfleet.coordinator.archive import tables_of
    from bigfleet.coordinator.offline import read_archive

    with _exit_codes():
        archive = read_archive(SystemDisk(), settings.archive)
        tables = tables_of(archive, cluster_id="none")
    ours = dict(archive.meta.ours or {})
    rows: dict[str, object] = {
        "shards": len(tables["shards"]),
        "clusters": len(tables["clusters"]),
        "domains": sum(map(len, tables["domains"].values())),
        "moves": sum(map(len, tables["moves"].values())),
        "ghosts": len(tables["ghosts"]),
        "move_seq": tables["move_seq"],
    }
    if for_programs(settings):
        document = {"meta": archive.meta.document(), "checksum": _checksum(ours), "rows": rows}
        write(console, settings, OutputRecord(document))
        return ExitCode.DONE
    meta = archive.meta
    fields: dict[str, object] = {"id": meta.id, "index": meta.index, "term": meta.term, "bytes": meta.size}
    shown = ("cluster_id", "incarnation", "epoch", "level", "created_at", "voters", "sha256")
    fields |= {name: ours[name] for name in shown if name in ours}
    write(console, settings, OutputRecord({**fields, "checksum": _checksum(ours), **rows}))
    return ExitCode.DONE


def _checksum(ours: dict[str, object]) -> str:
    return "good" if ours else "none; an archive of the original"


@contextmanager
def _exit_codes() -> Iterator[None]:
    """Turn errors of archives and directories into exit codes."""
    from bigfleet.aio.disk import DiskCause, DiskError
    from bigfleet.coordinator.archive import CorruptArchiveError
    from bigfleet.coordinator.log import DamagedDirectoryError
    from bigfleet.coordinator.raft.directory import DirectoryInUseError, NotEmptyError

    try:
        yield
    except (CorruptArchiveError, DamagedDirectoryError) as error:
        raise CommandError(str(error), ExitCode.CORRUPT) from error
    except NotEmptyError as error:
        raise CommandError(f"{error}; --force replaces what is in it", ExitCode.REFUSED) from error
    except DirectoryInUseError as error:
        raise CommandError(f"{error}; stop the replica first", ExitCode.REFUSED) from error
    except DiskError as error:
        code = ExitCode.NOT_FOUND if error.cause is DiskCause.MISSING else ExitCode.FAILURE
        raise CommandError(str(error), code) from error


SAVE = CliCommand(
    SaveSettings,
    _save,
    """Save a new snapshot of the coordinator's tables to an archive. --timeout does not apply. The file appears only when it
    is complete and on disk.""",
    ("bigfleetctl snapshot save coordinator.tar",),
)
RESTORE = CliCommand(
    RestoreSettings,
    _restore,
    """Create the data directory of a stopped replica from an archive or an export, as a single voter that the others join
    later. Needs no coordinator; refuses while a process uses the directory.

    For a cluster that has lost its majority. A replica that lost only its own disk is started with an empty one instead.""",
    (
        "bigfleetctl snapshot restore --data-dir /var/lib/bigfleet --node-id bigfleet-coordinator-0 coordinator.tar",
        "bigfleetctl snapshot restore --data-dir ./coord-data --node-id node-1 ./exports/latest",
    ),
)
INSPECT = CliCommand(
    InspectSettings,
    _inspect,
    """Show what is in an archive or an export: its origin, whether its checksum is correct, and the rows of each table.""",
    ("bigfleetctl snapshot inspect coordinator.tar", "bigfleetctl snapshot inspect ./exports/latest -o json"),
)
EXTRACT = CliCommand(
    ExtractSettings,
    _extract,
    """Create an archive from the data directory of a stopped replica, when it is the last one left.""",
    ("bigfleetctl snapshot extract --data-dir /var/lib/bigfleet survivor.tar",),
)
