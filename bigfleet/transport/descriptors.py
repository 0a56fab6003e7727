"""File descriptors: how many this process may have, and how they are shared out among its listeners.

Why: a process without a free descriptor cannot write its journal, dial its peers or answer a probe. So listeners together
get fewer than there are.
Must never: let a listener have the last descriptors, or take a shortage for the end of what the descriptor was wanted for.
Rules: `packaging#connection-limits`.
"""

import errno
import resource
from dataclasses import dataclass
from typing import Final, Self

WANTED: Final = 65_536
"""What a process raises its own limit to where it may; also in the systemd units and the compose file."""
RESERVE: Final = 96
"""For files, event loops, relays and dialled peers. A coordinator in a group of three uses 45, a shard 30."""
_SMALLEST: Final = 8
"""What a listener gets where the limit is too low for all; below a limit of 128 nothing can be promised."""
_SHORTAGES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


def is_shortage(error: OSError) -> bool:
    """Return whether the system had no descriptor or memory left, which passes."""
    return error.errno in _SHORTAGES


@dataclass(frozen=True, slots=True)
class DescriptorShares:
    """How many connections each listener of a process may have."""

    grpc: int
    raft: int
    http: int

    @classmethod
    def of(cls, limit: int) -> Self:
        """Share out what is above the reserve: an eighth each for Raft and HTTP, the rest for gRPC."""
        free = max(0, limit - RESERVE)
        small = max(_SMALLEST, free // 8)
        return cls(grpc=max(_SMALLEST, free - 2 * small), raft=small, http=small)

    @classmethod
    def of_process(cls) -> Self:
        """Share out what this process may have now."""
        return cls.of(descriptor_limit())


def descriptor_limit() -> int:
    """Return how many descriptors this process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 30 if soft == resource.RLIM_INFINITY else soft


def raise_descriptor_limit() -> int:
    """Raise the limit to what the system allows, at most `WANTED`, and return it.

    The usual soft limit of 1024 is for programs that call select(), which none of ours does.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < WANTED:
        allowed = WANTED if hard == resource.RLIM_INFINITY else min(WANTED, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, allowed), hard))
    return descriptor_limit()
