"""Free ports of the loopback interface, for programs that take theirs as a flag.

Must never: be used where a program can pick a port by itself; between picking and use another process may take it.
"""

import socket
from contextlib import ExitStack


def free_ports(number: int) -> list[int]:
    """Return different ports that were free a moment ago."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
