"""The library's TCP transport; `bigfleet.coordinator.raft.message_guard` decides about every message.

Why: the library's own transport sends unsynced state, carries out utility messages such as "add a node", and takes forwarded
commands.
Rules: `coordinator#raft-port`, `coordinator#raft-library`, `coordinator#contract-test`: these methods are hooks that
are not public, held by the contract test.
"""

from typing import Any

from pysyncobj.node import Node, TCPNode
from pysyncobj.tcp_server import SERVER_STATE
from pysyncobj.transport import TCPTransport

from bigfleet.coordinator.raft.message_guard import MessageGuard, MessageRefused


class RelayedNode(TCPNode):  # type: ignore[misc]  # the library has no types
    """A member named by its address; connections go to a relay on loopback."""

    def __init__(self, address: str, relay_port: int) -> None:
        super().__init__(address)
        self._relay_port = relay_port

    @property
    def ip(self) -> str:
        return "127.0.0.1"

    @property
    def port(self) -> int:
        return self._relay_port


class GuardedTransport(TCPTransport):  # type: ignore[misc]  # the library has no types
    """A transport that passes what the guard allows; `Any` is the library's objects."""

    _ready: bool
    """The library's: whether it has bound its port."""

    def __init__(self, raft: Any, me: Node | None, others: Any, guard: MessageGuard) -> None:
        self._guard = guard
        super().__init__(raft, me, others)

    def _onTick(self) -> None:  # noqa: N802 - the library's name
        # The library closes its port when an accept fails, be it for a descriptor that another thread gives back at once.
        server = self._server
        if self._ready and server is not None and server._TcpServer__state == SERVER_STATE.UNBINDED:
            self._ready = False
        super()._onTick()

    def send(self, node: Any, message: Any) -> bool:
        tagged = self._guard.outgoing(str(node.id), message, self._syncObj)
        return tagged is not None and bool(super().send(node, tagged))

    def _onMessageReceived(self, node: Any, message: Any) -> None:  # noqa: N802 - the library's name
        verdict = self._guard.incoming(str(node.id), isinstance(node, TCPNode), message, self._syncObj)
        if not isinstance(verdict, MessageRefused):
            super()._onMessageReceived(node, verdict)
        elif verdict.close and node in self._connections:
            self._connections[node].disconnect()

    def _onUtilityMessage(self, conn: Any, message: Any) -> bool:  # noqa: N802 - the library's name
        # Status, adding and removing nodes, code versions: refused for every peer.
        self._guard.incoming("", False, message, self._syncObj)
        conn.disconnect()
        return True
