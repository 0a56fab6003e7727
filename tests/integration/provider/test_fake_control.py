"""The control over HTTP and its page, against the program (`providers#fake-control`, `providers#fault-injection`)."""

import json
from base64 import b64decode
from pathlib import Path

import pytest

from bigfleet.aio.net import Code, RpcError
from bigfleet.model.machine import MachineState as S
from tests.integration.provider.programs import (
    GONE,
    MACHINES,
    running,
    until,
)

pytestmark = pytest.mark.integration


@pytest.mark.asyncio
async def test_the_control_carries_out_verbs_and_refuses_what_it_does_not_understand(
    pools: str, tmp_path: Path
) -> None:
    flags = ("--inventory", pools, "--control-addr", "127.0.0.1:0", "--state", str(tmp_path / "state"))
    async with running("bigfleet-fake-provider", *flags) as program:
        ask = program.ask
        assert await ask("POST", "/hold", {"kind": "create"}) == (200, {})
        await program.client.create("m-0")
        assert S((await program.client.get("m-0")).state) is S.CREATING
        assert await ask("POST", "/release", {}) == (200, {"released": 1})
        status, machines = await ask("GET", "/machines?zone=zone-b&limit=2")
        assert (status, [machine["id"] for machine in machines]) == (200, ["m-1", "m-3"])
        assert (await ask("POST", "/price", {"selector": {"id": "m-1"}, "price": 2.5}))[1] == {"changed": 1}
        assert (await program.client.get("m-1")).price_per_hour == 2.5
        assert (await ask("POST", "/add", {"name": "x", "instance_type": "t", "zones": ["a"]}))[1] == {
            "added": 1
        }
        assert (await ask("POST", "/restart"))[1] == {"machines": MACHINES + 1}
        assert (await program.client.get("m-1")).price_per_hour == 2.5
        _, (_, log) = await ask("GET", "/log?last=3")
        assert all(json.loads(line)["n"] for line in log.splitlines())
        refusals = [
            (await ask("POST", "/hold", {"colour": "red"}), 400, "colour"),
            (await ask("POST", "/hold", {"kind": "reboot"}), 400, "reboot"),
            (await ask("POST", "/explode", {}), 404, "/explode"),
            (await ask("GET", "/hold"), 405, "POST"),
            (await ask("POST", "/stats", {}), 405, "GET"),
            (await ask("POST", "/repair", {"id": "m-5"}), 409, "m-5"),
            (await ask("POST", "/repair", {"id": "nobody"}), 404, "nobody"),
            (
                await ask("POST", "/hold", {"kind": "create"}, Content_Type="text/plain"),
                415,
                "application/json",
            ),
            (await ask("GET", "/stats", Host="fake.example.com"), 403, "Host"),
            (await ask("POST", "/reset", {}, Origin="http://evil.example.com"), 403, "Origin"),
        ]
        for (status, reported), due, named in refusals:
            assert (status, named in str(reported)) == (due, True), reported


@pytest.mark.asyncio
async def test_a_kubelet_over_http_learns_of_machines_and_says_when_their_nodes_joined_and_emptied(
    pools: str,
) -> None:
    modes = ("--configure-until-joined", "--drain-until-empty")
    async with running(
        "bigfleet-fake-provider", "--inventory", pools, "--control-addr", "127.0.0.1:0", *modes
    ) as program:
        client, ask = program.client, program.ask

        async def is_now(state: S) -> bool:
            return S((await client.get("m-0")).state) is state

        async def waits_for_its_node() -> bool:
            return bool((await ask("GET", "/joining?cluster=prod"))[1])

        await client.create("m-0")
        await until(lambda: is_now(S.IDLE))
        await client.configure("m-0", "prod", blob=b"join here")
        await until(waits_for_its_node)
        _, (joining,) = await ask("GET", "/joining?cluster=prod")
        assert (joining["id"], joining["cluster"], b64decode(joining["blob"])) == (
            "m-0",
            "prod",
            b"join here",
        )
        assert await is_now(S.CONFIGURING)
        assert await ask("POST", "/joined", {"id": "m-0"}) == (200, {"joined": True})
        await until(lambda: is_now(S.CONFIGURED))
        assert await ask("GET", "/joining") == (200, [])
        await client.drain("m-0", grace_s=3600)
        _, (draining,) = await ask("GET", "/machines?state=Draining")
        assert draining["id"] == "m-0"
        assert await ask("POST", "/emptied", {"id": "m-0"}) == (200, {})
        await until(lambda: is_now(S.IDLE))
        assert (await ask("POST", "/joined", {"id": "nobody"}))[0] == 404


@pytest.mark.asyncio
async def test_the_page_loads_nothing_from_elsewhere_and_offers_every_verb() -> None:
    async with running("bigfleet-fake-provider", "--control-addr", "127.0.0.1:0") as program:
        _, (head, page) = await program.ask("GET", "/")
        assert "Content-Security-Policy: default-src 'none'; script-src 'self'" in head
        assert "unsafe-inline" not in head
        assert "http://" not in page
        assert "https://" not in page
        assert "<script>" not in page
        for path, kind in (("/page.js", "text/javascript"), ("/page.css", "text/css")):
            status, (top, content) = await program.ask("GET", path)
            assert (status, kind in top, "http" in content) == (200, True, False)
        _, verbs = await program.ask("GET", "/verbs")
        assert {"fail-next", "hold", "lie", "restart", "machines"} <= {verb["name"] for verb in verbs}


@pytest.mark.asyncio
async def test_connections_break_in_the_middle_of_an_answer_and_come_back(pools: str) -> None:
    async with running(
        "bigfleet-fake-provider", "--inventory", pools, "--control-addr", "127.0.0.1:0"
    ) as program:
        await program.ask("POST", "/reset-during", {"rpc": "Create", "times": 1})
        with pytest.raises(RpcError) as broken:
            await program.client.create("m-0")
        assert broken.value.code in GONE

        async def went_on() -> bool:
            try:
                return S((await program.client.get("m-0")).state) is S.IDLE
            except RpcError as error:
                if error.code is Code.UNAVAILABLE:
                    return False
                raise

        await until(went_on)  # what was accepted was carried out, and the listener is back
