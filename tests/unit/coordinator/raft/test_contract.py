"""The contract with pysyncobj: what we override or rely on has the shape it had when the guards were built.

Rules: `coordinator#contract-test`, `coordinator#raft-library`. An upgrade of the library begins with this file.
"""

import inspect
import re
from collections.abc import Callable
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from types import ModuleType
from unittest import mock

import pysyncobj.journal
import pysyncobj.node
import pysyncobj.serializer
import pysyncobj.syncobj
import pysyncobj.tcp_connection
import pysyncobj.tcp_server
import pysyncobj.transport
import pytest
from pysyncobj.version import VERSION

from bigfleet.aio.rng import SeededRng
from bigfleet.coordinator.raft.guarded_transport import GuardedTransport
from bigfleet.coordinator.raft.journal import GuardedJournal
from bigfleet.coordinator.raft.message_fields import VOTER_TYPES
from bigfleet.coordinator.raft.message_guard import FORWARDED_TYPES
from bigfleet.testing.disk.virtual_disk import MemoryDisk
from tests.support.coordinator.virtual_cluster import VirtualCluster

DIGESTS = {
    pysyncobj.syncobj: "e8bdf06797085d734df86e24ab4802fe87893dff77268565ec036f7ad4a1cfe4",
    pysyncobj.journal: "9cf1eaf6acc704581a4cf7d3de330a404403913107adc91c929778b7e3f35edf",
    pysyncobj.transport: "0c9d89f9c4781ec9772df8011d7975a1a4a1a5f541357e12eae85a813e92b50b",
    pysyncobj.serializer: "4d39fde2f15000ad8f507ec229ebd4f6a86371b6f84d4dc1439a9cccd52857ee",
    pysyncobj.node: "e4a3f027cd8291f558334bb9c977e952f6b6989e7e1fa1588d3005ef0b990e2c",
    pysyncobj.tcp_server: "bde2f216c1a585029188d0438b44762e2e797dfc53bbce387839daaa46b9a60d",
    pysyncobj.tcp_connection: "7784ed8da031369fe36f805cb186a2e94a3bd6f10fed2dd59c8cc3713fd6331c",
}
JOURNAL_METHODS = {
    "add": ("command", "idx", "term"),
    "clear": (),
    "deleteEntriesFrom": ("entryFrom",),
    "deleteEntriesTo": ("entryTo",),
    "__getitem__": ("item",),
    "__len__": (),
    "_destroy": (),
    "setRaftCommitIndex": ("raftCommitIndex",),
    "getRaftCommitIndex": (),
    "setCurrentTerm": ("term", "votedForNodeId"),
    "getCurrentTerm": (),
    "getVotedForNodeId": (),
    "onOneSecondTimer": (),
}
TRANSPORT_METHODS = {
    "send": ("node", "message"),
    "_onMessageReceived": ("node", "message"),
    "_onUtilityMessage": ("conn", "message"),
    "_onTick": (),
}


def digest(module: ModuleType) -> str:
    assert module.__file__ is not None
    return sha256(Path(module.__file__).read_bytes()).hexdigest()


def arguments(function: Callable[..., object]) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters)[1:]


def check_journal(shape: type) -> None:
    own = {name for name, value in vars(shape).items() if callable(value)} - {"__init__"}
    assert own == set(JOURNAL_METHODS)
    for name, expected in JOURNAL_METHODS.items():
        assert arguments(getattr(shape, name)) == expected


def check_transport(shape: type) -> None:
    for name, expected in TRANSPORT_METHODS.items():
        assert arguments(getattr(shape, name)) == expected


@pytest.mark.rule("coordinator#contract-test")
def test_the_version_is_the_one_the_guards_were_built_for() -> None:
    assert VERSION == "0.3.17"
    assert metadata.version("pysyncobj") == "0.3.17"


@pytest.mark.rule("coordinator#contract-test")
@pytest.mark.parametrize("module", DIGESTS, ids=lambda module: str(module.__name__))
def test_no_byte_of_the_modules_we_rely_on_has_changed(module: ModuleType) -> None:
    assert digest(module) == DIGESTS[module]


@pytest.mark.rule("coordinator#contract-test")
def test_the_abstract_journal_has_exactly_these_methods_and_ours_has_them_too() -> None:
    check_journal(pysyncobj.journal.Journal)
    for name, expected in JOURNAL_METHODS.items():
        assert arguments(getattr(GuardedJournal, name)) == expected


@pytest.mark.rule("coordinator#contract-test")
def test_the_transport_has_the_three_methods_we_override() -> None:
    check_transport(pysyncobj.transport.TCPTransport)
    check_transport(GuardedTransport)


@pytest.mark.rule("coordinator#contract-test")
def test_the_set_of_message_types_is_the_one_the_guard_knows() -> None:
    source = inspect.getsource(pysyncobj.syncobj)
    sent = set(re.findall(r"'type': '(\w+)'", source)) | set(
        re.findall(r"message\['type'\] == '(\w+)'", source)
    )
    assert sent == VOTER_TYPES | FORWARDED_TYPES


@pytest.mark.rule("coordinator#contract-test")
def test_the_constructor_takes_the_journal_from_the_factory_and_messages_pass_the_guard() -> None:
    names = ("c-0", "c-1", "c-2")
    cluster = VirtualCluster({name: MemoryDisk() for name in names}, SeededRng(7).stream("contract"))
    made: list[str] = []
    with cluster.running():
        cluster.found()
        stock = pysyncobj.syncobj.createJournal
        for name in names:
            process = cluster.start(name)
            assert process.replica._raft._SyncObj__raftLog is process.replica.journal
            made.append(name)
        assert pysyncobj.syncobj.createJournal is stock
        assert cluster.run(10, until=cluster.serving)
    assert made == list(names)


@pytest.mark.rule("coordinator#contract-test")
def test_a_patched_copy_is_noticed(tmp_path: Path) -> None:
    class Renamed(pysyncobj.journal.Journal):  # type: ignore[misc]  # the library has no types
        def add(self, command: bytes, index: int, term: int) -> None:
            """Another argument name."""

    with pytest.raises(AssertionError):
        check_journal(Renamed)

    class Moved:
        def send(self, node: object, message: object, urgent: bool) -> None:
            """One argument more."""

    with pytest.raises(AssertionError):
        check_transport(Moved)
    assert pysyncobj.node.__file__ is not None
    copy = tmp_path / "node.py"
    copy.write_bytes(Path(pysyncobj.node.__file__).read_bytes() + b"\n")
    with mock.patch.object(pysyncobj.node, "__file__", str(copy)), pytest.raises(AssertionError):
        test_no_byte_of_the_modules_we_rely_on_has_changed(pysyncobj.node)
