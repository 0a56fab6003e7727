"""The system host charges nothing and does not even wait."""

import asyncio

from bigfleet.aio.host import SystemHost


def test_charging_a_real_host_gives_way_to_nobody() -> None:
    async def main() -> list[str]:
        ran: list[str] = []
        asyncio.get_running_loop().call_soon(ran.append, "other")
        await SystemHost().charge("cycle", 500_000)
        return list(ran)

    assert asyncio.run(main()) == []
