"""Resolves names to addresses, on each call again.

Why: a pod that moved keeps its name and changes its address; only a look-up per attempt finds it
(`coordinator#self-registration`).
Must never: raise for a name that does not resolve; that is an ordinary case.
"""

import asyncio
from collections.abc import Sequence


async def system_resolve(host: str, port: int) -> Sequence[str]:
    """Return the IP addresses of a name as the system's resolver gives them, each once."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port)
    except OSError:
        return ()
    return tuple(dict.fromkeys(str(place[0]) for *_, place in found))
