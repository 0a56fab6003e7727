"""A message of a peer behind the secret: judged by the guard, then taken by the library, as a follower and as a leader.

Why: the library checks no field. What the guard passes must neither raise in it nor leave it such that its next tick raises.
"""

import json
import logging
from typing import Any

from pysyncobj import SyncObj, SyncObjConf
from pysyncobj.node import Node
from pysyncobj.transport import Transport

from bigfleet.coordinator.raft.message_guard import MessageGuard, MessageRefused

_PEER = Node("peer")
_FOLLOWER, _LEADER = 0, 2
_TERM = 5
logging.getLogger("pysyncobj.syncobj").setLevel(logging.CRITICAL + 1)  # it reports what it cuts, per input


def take(data: bytes) -> object:
    """From JSON, since the library's own form is code."""
    try:
        message = json.loads(data, object_hook=_as_sent)
    except (ValueError, RecursionError):
        return None
    verdict: object = None
    for state in (_FOLLOWER, _LEADER):
        raft = _raft(state)
        verdict = MessageGuard("one", _Log()).incoming("peer", True, message, raft)
        assert isinstance(verdict, dict | MessageRefused)
        if isinstance(verdict, dict):
            raft._SyncObj__onMessageReceived(_PEER, verdict)
            raft.doTick()
    return verdict


def _as_sent(found: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _plain(value, texts_are_bytes=name in {"entries", "serialized"})
        for name, value in found.items()
    }


def _plain(value: object, *, texts_are_bytes: bool) -> object:
    if isinstance(value, list):
        return tuple(_plain(part, texts_are_bytes=texts_are_bytes) for part in value)
    return value.encode(errors="replace") if texts_are_bytes and isinstance(value, str) else value


class _Log:
    base = (30, 4)

    def sync(self) -> None:
        """Nothing is written here."""

    def holds(self, index: int, term: int) -> bool:
        return (index, term) == (20, 4)


class _Silent(Transport):  # type: ignore[misc]  # the library has no types
    """Sends nothing and meets no peer by itself."""

    @property
    def ready(self) -> bool:
        return True

    def send(self, node: object, message: object) -> bool:
        return True


class _Raft(SyncObj):  # type: ignore[misc]  # the library has no types
    """Applies nothing: what a batch says is judged elsewhere."""

    def _SyncObj__doApplyCommand(self, command: bytes) -> None:  # noqa: N802 the library's name
        """Drop it."""


def _raft(state: int) -> Any:  # the library's object
    """A replica of three in term 5, with entries up to 22 of which 20 are committed, whose peer is connected."""
    transport = _Silent(None, None, [])
    raft = _Raft(
        "me", [_PEER, Node("other")], SyncObjConf(autoTick=False), nodeClass=Node, transport=transport
    )
    log = raft._SyncObj__raftLog
    for index in range(2, 23):
        log.add(b"\x01", index, 4)
    log.setCurrentTerm(_TERM, None)
    values = {"raftCurrentTerm": _TERM, "raftCommitIndex": 20, "raftLastApplied": 20, "raftState": state}
    for name, value in values.items():
        setattr(raft, f"_SyncObj__{name}", value)
    raft._SyncObj__onNodeConnected(_PEER)
    for node in raft._SyncObj__otherNodes:
        raft._SyncObj__raftNextIndex[node], raft._SyncObj__raftMatchIndex[node] = 23, 20
        raft._SyncObj__lastResponseTime[node] = float("inf")
    return raft
