"""Input and output of a hook: standard input, environment, blob file, last line of output (`providers#hook-protocol`)."""

import json
import subprocess
from typing import Any

import pytest

from bigfleet.model.frozen_map import FrozenMap
from bigfleet.model.machine import MachineState as S
from bigfleet.model.machine import Shape
from bigfleet.provider.hook.core.errors import HookOutputError
from bigfleet.provider.hook.core.inventory import HookKind
from bigfleet.provider.hook.core.protocol import NO_OUTPUT, HookMachine, HookRequest, read_output
from bigfleet.testing.loop import run_virtual
from tests.support.scripted_hooks import HookCall, HookReply
from tests.unit.provider.hook.harness import BLOBS, POWER_MANAGED, World, inventory, machine_line

BLOB = b"#!/bin/sh\nTOKEN=abcdef.0123456789\nkubeadm join\n"


def test_the_input_of_a_drain_is_exactly_this() -> None:
    async def scenario() -> None:
        text = inventory([]).replace("  []\n", machine_line("m-1", ", labels: {r: a}, vars: {bmc: x}"))
        async with World(text) as world:
            await world.configured("m-1")
            await world.client.drain("m-1", grace_s=30)
            await world.settled("m-1")
            (call,) = (call for call in world.hooks.calls if call.kind is HookKind.DRAIN)
            document = dict(call.document)
            assert document.pop("operation_id")
            assert document == {
                "version": 1,
                "kind": "drain",
                "machine": {
                    "id": "m-1",
                    "ref": "host-m-1",
                    "instance_type": "gen11",
                    "zone": "hall-7",
                    "capacity_type": "on-demand",
                    "price_per_hour": 0.5,
                    "interruption_probability": 0.0,
                    "resources": {"cpu": "8"},
                    "allocatable": {},
                    "labels": {"r": "a"},
                    "vars": {"bmc": "x"},
                },
                "cluster": "prod",
                "grace_seconds": 30,
                "deadline_seconds": 90,
                "attempt": 1,
            }

    run_virtual(scenario())


def test_a_script_without_a_json_parser_can_pick_values_with_sed() -> None:
    labels = FrozenMap({"ref": "no", "bmc": "no"})
    subject = HookMachine(
        id="m-1", ref="10.7.12.7", shape=Shape(labels=labels), vars=FrozenMap({"bmc": "10.8.12.7", "z": ""})
    )
    stdin = HookRequest(kind=HookKind.PROBE, subject=subject).encode()

    def sed(script: str) -> str:
        return subprocess.run(
            ["sed", "-n", script], input=stdin, capture_output=True, check=True
        ).stdout.decode()

    assert sed(r's/^    "ref": "\(.*\)",*$/\1/p') == "10.7.12.7\n"
    assert sed(r'/^    "vars": {/,/^    }/s/^      "bmc": "\(.*\)",*$/\1/p') == "10.8.12.7\n"


def test_the_environment_is_the_three_names_those_passed_and_the_blob_file() -> None:
    async def scenario() -> None:
        async with World(inventory(["m-1"], POWER_MANAGED, "pass_env: [PROXY, NOT_SET]\n")) as world:
            await world.client.create("m-1")
            await world.settled("m-1")
            await world.configured("m-1")
            create, configure = world.hooks.calls
            common = {"PATH": "/bin", "HOME": "/root", "LANG": "C", "PROXY": "p"}
            assert create.environment == common
            blob_file = configure.environment["BF_BLOB_FILE"]
            assert blob_file.startswith(f"{BLOBS}/")
            assert configure.environment == {**common, "BF_BLOB_FILE": blob_file}

    run_virtual(scenario())


@pytest.mark.rule("providers#blob-secret")
def test_the_blob_is_a_private_file_for_as_long_as_the_hook_runs_and_nowhere_else() -> None:
    async def scenario() -> None:
        async with World(inventory(["m-1"])) as world:
            found: list[tuple[bytes, int, int]] = []

            def look(call: HookCall) -> None:
                path = call.environment["BF_BLOB_FILE"]
                stat, folder = world.disk.stat(path), world.disk.stat(BLOBS)
                found.append((world.disk.read(path), stat.permissions, folder.permissions))

            world.hooks.on_call = look
            shout = ("cannot run kubeadm join", "TOKEN=abcdef.0123456789 is wrong")
            world.hooks.next(HookKind.CONFIGURE, HookReply(75, errors=shout), HookReply(1, errors=shout))
            machine = await world.configured("m-1", blob=BLOB)
            assert found == [(BLOB, 0o600, 0o700)] * 2
            assert world.disk.list_names(BLOBS) == ()
            assert machine.last_error == "configure failed: **** is wrong"
            everything = world.log_text + repr(world.store.entries) + json.dumps(_documents(world))
            assert "abcdef.0123456789" not in everything
            assert "kubeadm join" not in everything

    run_virtual(scenario())


def _documents(world: World) -> list[Any]:
    return [dict(call.document) for call in world.hooks.calls]


def test_a_blob_file_is_removed_when_its_hook_is_ended_and_when_a_killed_process_left_it() -> None:
    async def scenario() -> None:
        async with World(inventory(["m-1"])) as world:
            world.hooks.always(HookKind.CONFIGURE, HookReply(takes_s=1000))
            await world.client.configure("m-1", "prod", blob=BLOB)
            await world.clock.sleep(1)
            assert len(world.disk.list_names(BLOBS)) == 1
            await world.settled("m-1")
            await world.clock.sleep(1)
            assert world.disk.list_names(BLOBS) == ()
            world.write(f"{BLOBS}/blob-7", "left behind")
            await world.restart()
            assert world.disk.list_names(BLOBS) == ()

    run_virtual(scenario())


def test_what_a_create_hook_says_of_its_host_becomes_part_of_the_record() -> None:
    async def scenario() -> None:
        async with World(inventory(["m-1"], POWER_MANAGED)) as world:
            output = {
                "ref": "i-0042",
                "resources": {"cpu": "16"},
                "allocatable": {"cpu": "15"},
                "labels": {"topology.bigfleet/rack": "r9"},
                "message": "booted",
            }
            world.hooks.next(HookKind.CREATE, HookReply(output=f"booting\n{json.dumps(output)}\n"))
            await world.client.create("m-1")
            machine = await world.settled("m-1")
            assert (machine.host, dict(machine.shape.resources)) == ("i-0042", {"cpu": "16"})
            assert dict(machine.shape.allocatable) == {"cpu": "15"}
            await world.provider.kit.refresh()
            assert world.machine("m-1").labels["topology.bigfleet/rack"] == "r9"
            await world.restart()
            assert world.machine("m-1").labels["topology.bigfleet/rack"] == "r9"
            await world.client.delete("m-1")
            await world.settled("m-1")
            await world.provider.kit.refresh()
            assert not world.machine("m-1").labels

    run_virtual(scenario())


def test_without_a_ref_of_its_own_a_host_is_the_one_of_the_inventory() -> None:
    async def scenario() -> None:
        text = inventory(["m-1", "m-2"], POWER_MANAGED).replace("ref: host-m-2, ", "")
        async with World(text) as world:
            for machine_id in ("m-1", "m-2"):
                await world.client.create(machine_id)
            assert (await world.settled("m-1")).host == "host-m-1"
            failed = await world.settled("m-2")
            assert (
                failed.last_error
                == "create failed: the create hook printed no ref, and the inventory has none"
            )

    run_virtual(scenario())


@pytest.mark.parametrize("output", [b"", b"done", b"{oops", b"[1]", b"{}\nbye", b"\xff\xfe"])
def test_an_output_without_a_json_object_at_its_end_says_nothing(output: bytes) -> None:
    assert read_output(output) == NO_OUTPUT


@pytest.mark.parametrize(
    ("output", "fault"),
    [
        ('{"rf": "a"}', "rf: unknown key, allowed is one of ref, resources"),
        ('{"ref": 7}', "ref: found 7, allowed is a text"),
        ('{"resources": ["cpu"]}', "resources: found a list, allowed is a mapping"),
        ('{"labels": {"a": true}}', "labels[a]: found True, allowed is a text"),
    ],
)
def test_an_output_that_breaks_the_protocol_fails_the_machine(output: str, fault: str) -> None:
    with pytest.raises(HookOutputError, match=r"the last line of output: ") as caught:
        read_output(output.encode())
    assert fault in str(caught.value)

    async def scenario() -> None:
        async with World(inventory(["m-1"], POWER_MANAGED)) as world:
            world.hooks.next(HookKind.CREATE, HookReply(output=output))
            await world.client.create("m-1")
            machine = await world.settled("m-1")
            assert machine.state is S.FAILED
            assert fault in machine.last_error

    run_virtual(scenario())


def test_a_host_with_a_size_that_cannot_be_is_refused() -> None:
    async def scenario() -> None:
        async with World(inventory(["m-1"], POWER_MANAGED)) as world:
            world.hooks.next(HookKind.CREATE, HookReply(output='{"resources": {"cpu": "many"}}'))
            await world.client.create("m-1")
            assert "resources" in (await world.settled("m-1")).last_error

    run_virtual(scenario())
