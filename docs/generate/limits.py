"""The page of limits: what a peer or a file may demand at most, by flag or fixed."""

from bigfleet.aio import given_files
from bigfleet.app.fake_provider import PROGRAM as FAKE_PROVIDER
from bigfleet.app.fault_provider import PROGRAM as FAULT_PROVIDER
from bigfleet.app.hook_provider import PROGRAM as HOOK_PROVIDER
from bigfleet.cli.framework.surface import entries
from bigfleet.coordinator.raft import raft_gate
from bigfleet.document import strict_yaml
from bigfleet.model import texts
from bigfleet.model.times import NANOSECONDS
from bigfleet.provider import contract
from bigfleet.shard.session import rollup_lanes, service
from bigfleet.transport import http
from bigfleet.wire import machines, rollup_limits, rollups
from docs.generate.cli import PROGRAMS
from docs.generate.markdown import code, plain, table
from docs.generate.markdown import page as markdown_page

_INTRODUCTION = """
Every limit has a default that no fleet within [its size](../scaling.md) reaches. What is beyond a limit is refused, and counted by reason in
a [metric](metrics.md); where something is cut or dropped instead, the table says so. [The security page](../security.md) says which threats
the limits are for.
"""
_PROVIDERS = (FAKE_PROVIDER, FAULT_PROVIDER, HOOK_PROVIDER)
"""Programs of one command, which is not typed."""
_FIXED = "These are constants: what is beyond them is no legitimate use, or the contract demands them."


def page() -> str:
    """Return the page."""
    return markdown_page(
        "Limits",
        _INTRODUCTION,
        "## Limits that are flags",
        table(("Flag", "Default", "Commands", "What it bounds, and why"), _flags()),
        "## Fixed limits",
        _FIXED,
        table(("What", "At most", "What happens beyond it"), _fixed()),
    )


def _flags() -> list[tuple[str, ...]]:
    """Rows of flags; one that several commands share is one row."""
    commands: dict[tuple[str, str, str], list[str]] = {}
    for program in (*PROGRAMS, *_PROVIDERS):
        for entry in entries(program):
            for option in entry.options:
                if option.cli.limit:
                    row = (code(f"--{option.flag}"), code(option.default), plain(option.help))
                    commands.setdefault(row, []).append(
                        program.name if program in _PROVIDERS else f"{program.name} {entry.row.name}"
                    )
    return [
        (flag, default, ", ".join(code(name) for name in sorted(names)), meaning)
        for (flag, default, meaning), names in sorted(commands.items())
    ]


def _fixed() -> list[tuple[str, ...]]:
    probes, raft = http.BOOK, raft_gate.LIMITS
    whole = "the shard refuses the roll-up"
    rows = (
        ("first frame of an operator", _size(service.FIRST_FRAME_BYTES), "the shard ends the stream"),
        ("cluster id", f"{service.CLUSTER_ID_CHARACTERS} characters", "the shard ends the stream"),
        (
            "roll-up that is read on the event loop",
            _size(rollup_lanes.READ_ASIDE_BYTES),
            "a thread reads it, in turns with those of other clusters",
        ),
        ("row of a roll-up", _size(rollup_limits.MAX_ROW_BYTES), whole),
        ("requirements of a row", str(rollup_limits.MAX_REQUIREMENTS), whole),
        ("values of a requirement", str(rollup_limits.MAX_VALUES), whole),
        ("spread constraints of a row", str(rollup_limits.MAX_SPREADS), whole),
        ("resources of a row", str(rollup_limits.MAX_RESOURCES), whole),
        ("group of a row", _size(rollup_limits.MAX_GROUP_BYTES), whole),
        ("value of a label", f"{texts.MAX_LABEL_VALUE} characters", whole),
        (
            "distance of a roll-up's time from the shard's",
            f"{rollups.ARRIVAL_WINDOW_NS // NANOSECONDS} s",
            "the shard's own time counts instead",
        ),
        (
            "names in a record of a provider",
            f"{machines.MAX_NAME_BYTES} bytes",
            "the shard refuses the record",
        ),
        (
            "fence marks of unknown machines",
            f"{contract.MAX_UNKNOWN_MARKS:,}",
            "the provider drops the oldest",
        ),
        (
            "fence marks of further shards",
            f"{contract.MAX_FURTHER_MARKS:,}",
            "the provider drops the oldest",
        ),
        ("shards whose epochs are known", f"{contract.MAX_SHARD_EPOCHS:,}", "the provider drops the oldest"),
        (
            "connections of a probe port, in all and of one address",
            f"{probes.connections}, {probes.unproven_per_address}",
            "the oldest ends",
        ),
        (
            "connections of the Raft port, in all and of one address before the handshake",
            f"{raft.connections}, {raft.unproven_per_address}",
            "the oldest ends",
        ),
        ("handshake on the Raft port", f"{raft_gate.HANDSHAKE_S:g} s", "the connection ends"),
        (
            "settings file, certificate or secret",
            _size(given_files.SETTINGS_BYTES),
            "the command ends with exit code 2",
        ),
        ("inventory file", _size(given_files.INVENTORY_BYTES), "the provider refuses it"),
        ("archive of a backup, unpacked", _size(given_files.ARCHIVE_BYTES), "the coordinator refuses it"),
        ("depth of a YAML or JSON document", str(strict_yaml.MAX_DEPTH), "the command refuses it"),
    )
    return [(plain(what), plain(most), plain(beyond)) for what, most, beyond in rows]


def _size(count: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size and not count % size:
            return f"{count // size} {unit}"
    return f"{count} bytes"
