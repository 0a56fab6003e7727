"""Scripts: verbs at given times (`providers#fault-injection`)."""

import json
from textwrap import dedent

import pytest

from bigfleet.document.errors import DocumentError
from bigfleet.model.machine import MachineState as S
from bigfleet.provider.fake.control import VERBS
from bigfleet.provider.fake.script import ScriptError, play, read_script
from bigfleet.testing.loop import run_virtual
from tests.support.fake_provider import VirtualFake, bound, pool


def test_steps_are_done_in_the_order_of_their_times() -> None:
    script = dedent("""
        - {at: 10m, do: fail, id: bound-0, reason: later}
        - {at: 30s, do: hold, kind: create}
        - {do: lie, name: nan-price}
    """)

    async def scene() -> None:
        async with VirtualFake((pool(), bound())) as world:
            await play(read_script(script.encode()), world.fake, world.process.clock)
            verbs = [json.loads(line) for line in world.fake.events.lines]
            assert [(line["verb"], line["t"]) for line in verbs if line["event"] == "verb"] == [
                ("lie", 0.0),
                ("hold", 30.0),
                ("fail", 600.0),
            ]
            assert world.machine("bound-0").state is S.FAILED

    run_virtual(scene())


def test_a_step_that_cannot_be_done_ends_the_script_with_its_time_and_verb() -> None:
    async def scene() -> None:
        async with VirtualFake((pool(),)) as world:
            steps = read_script(b"- {at: 5s, do: lie, name: white}")
            with pytest.raises(ScriptError, match="script at 5 s: lie: lie: found 'white'"):
                await play(steps, world.fake, world.process.clock)

    run_virtual(scene())


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("{}", "document"),
        ("- 3", "[0]"),
        ("- {at: 1s}", "[0].do"),
        ("- {do: stats}", "[0].do"),
        ("- {do: explode}", "[0].do"),
        ("- {do: hold, kind: create}\n- {do: hold, colour: red}", "[1].colour"),
        ("- {at: soon, do: reset}", "[0].at"),
        ("- {at: 1s, at: 2s, do: reset}", "document"),
    ],
)
def test_a_bad_script_is_refused_with_the_path_before_it_begins(text: str, path: str) -> None:
    with pytest.raises(DocumentError) as refused:
        read_script(text.encode())
    assert refused.value.field == path


def test_an_empty_script_does_nothing() -> None:
    assert read_script(b"") == ()


def test_every_verb_says_what_it_is_for_and_what_it_takes() -> None:
    for verb in VERBS.values():
        shown = verb.as_dict
        assert shown["about"]
        json.dumps(shown)
    wanted = """machines stats calls log fail-next fail hold release latency stockout price add remove shed lie honest
    pause-rpc restart reset"""
    assert set(wanted.split()) <= set(VERBS)
