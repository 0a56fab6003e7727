"""The story of a behaviour: complete, short, and without secrets."""

from bigfleet.aio.net import Code, Reply, RpcError
from bigfleet.provider.conformance.caller import Caller
from bigfleet.provider.conformance.calls import CallLog, CallToken
from bigfleet.testing.loop import run_virtual
from bigfleet.v1alpha1 import provider_pb2 as pb


class ScriptedChannel:
    """Answers every call with the next of its answers."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)

    async def unary(self, method: object, request: object, **options: object) -> Reply[object]:
        answer = self.answers.pop(0)
        if isinstance(answer, RpcError):
            raise answer
        return Reply(answer)


def caller(*answers: object) -> tuple[Caller, CallLog]:
    log = CallLog()
    return Caller(ScriptedChannel(*answers), log, 1.0), log  # type: ignore[arg-type]  # the part that is used


def machine(state: "pb.MachineState.ValueType", **fields: str) -> pb.Machine:
    return pb.Machine(id="m-1", state=state, **fields)  # type: ignore[arg-type]


def test_a_call_is_told_with_token_answer_and_code() -> None:
    calls, log = caller(RpcError(Code.FAILED_PRECONDITION, "stale"))
    ack = run_virtual(calls.create("m-1", CallToken("shard-a", 2, 7)))
    assert ack.fenced
    assert log.lines() == ("Create 'm-1', token (shard-a, 2, 7) -> FAILED_PRECONDITION: stale",)


def test_neither_blob_nor_metadata_values_are_told() -> None:
    calls, log = caller(pb.TransitionAck(operation_id="op-1", machine=machine(pb.MACHINE_STATE_CONFIGURING)))
    run_virtual(calls.configure("m-1", "c-1", blob=b"join-token", metadata={"key": "hidden"}))
    (line,) = log.lines()
    assert "join-token" not in line
    assert "hidden" not in line
    assert "1 metadata keys, blob of 10 bytes, no token -> OK, operation 'op-1', CONFIGURING" in line


def test_equal_polls_in_a_row_are_one_line() -> None:
    creating, idle = machine(pb.MACHINE_STATE_CREATING), machine(pb.MACHINE_STATE_IDLE)
    calls, log = caller(creating, creating, creating, idle)

    async def poll() -> None:
        for _ in range(4):
            await calls.get("m-1", poll=True)

    run_virtual(poll())
    assert log.lines() == ("Get 'm-1' -> CREATING (polled 3 times)", "Get 'm-1' -> IDLE")
    assert log.sequence() == ("Get 'm-1'",)


def test_a_long_story_loses_its_beginning_and_says_so() -> None:
    log = CallLog()
    for number in range(100):
        log.end(log.begin(f"call {number}", poll=False), "OK")
    assert log.lines()[0] == "(40 earlier calls left out)"
    assert log.lines()[-1] == "call 99 -> OK"
    assert len(log.sequence()) == 100


def test_a_state_that_nobody_knows_is_told_by_its_number() -> None:
    calls, log = caller(machine(pb.MachineState.ValueType(42), cluster="c-1"))
    run_virtual(calls.get("m-1"))
    assert log.lines() == ("Get 'm-1' -> state 42, cluster c-1",)


def test_an_answer_of_many_lines_is_told_in_one() -> None:
    calls, log = caller(RpcError(Code.INTERNAL, "first\nsecond" + "x" * 1000))
    run_virtual(calls.drain("m-1", 5))
    (line,) = log.lines()
    assert "first second" in line
    assert len(line) < 300
