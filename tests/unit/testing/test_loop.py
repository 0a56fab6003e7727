"""The virtual-time loop: order, exact time, who waits, and that nothing real is waited for."""

import asyncio
import contextvars
import gc
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest

from bigfleet.testing.loop import AllTasksWaitError, RealWaitError, VirtualTimeLoop, run_virtual, virtual_loop


@pytest.fixture
def virtual_time() -> Iterator[asyncio.Runner]:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        yield runner


def test_a_year_passes_in_no_time_and_exactly(virtual_time: asyncio.Runner) -> None:
    async def main() -> int:
        await asyncio.sleep(365 * 86_400)
        return virtual_loop().now_ns

    assert virtual_time.run(main()) == 365 * 86_400 * 1_000_000_000


def test_ten_thousand_short_sleeps_add_up_without_rounding(virtual_time: asyncio.Runner) -> None:
    async def main() -> int:
        for _ in range(10_000):
            await asyncio.sleep(0.1)
        return virtual_loop().now_ns

    assert virtual_time.run(main()) == 1_000_000_000_000


def test_the_start_time_can_be_given_and_durations_stay_exact() -> None:
    start = 1_893_456_000_123_456_789

    async def main() -> int:
        await asyncio.sleep(0.000000001)
        await asyncio.sleep(2)
        return virtual_loop().now_ns

    assert run_virtual(main(), start_ns=start) == start + 2_000_000_001


def test_ready_callbacks_run_first_in_first_out(virtual_time: asyncio.Runner) -> None:
    ran: list[int] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for number in range(5):
            loop.call_soon(ran.append, number)
        loop.call_soon_threadsafe(ran.append, 5)
        await asyncio.sleep(0)

    virtual_time.run(main())
    assert ran == [0, 1, 2, 3, 4, 5]


def test_timers_run_by_due_time_then_by_creation(virtual_time: asyncio.Runner) -> None:
    ran: list[str] = []

    async def main() -> None:
        loop = virtual_loop()
        loop.call_later(2, ran.append, "late")
        for name in ("a", "b", "c", "d", "e"):
            loop.call_later(1, ran.append, name)
        loop.call_at(1, ran.append, "f")
        loop.call_at_ns(1_000_000_000, ran.append, "g")
        loop.call_later(0.5, ran.append, "early")
        await asyncio.sleep(3)

    virtual_time.run(main())
    assert ran == ["early", "a", "b", "c", "d", "e", "f", "g", "late"]


def test_what_a_timer_makes_ready_runs_before_the_time_moves_on(virtual_time: asyncio.Runner) -> None:
    seen: list[tuple[str, float]] = []

    async def main() -> None:
        loop = virtual_loop()

        def first() -> None:
            seen.append(("first", loop.time()))
            loop.call_soon(lambda: seen.append(("soon", loop.time())))

        loop.call_later(1, first)
        loop.call_later(1.000000001, lambda: seen.append(("next", loop.time())))
        await asyncio.sleep(2)

    virtual_time.run(main())
    assert seen == [("first", 1.0), ("soon", 1.0), ("next", 1.000000001)]


def test_the_time_never_moves_to_a_cancelled_timer(virtual_time: asyncio.Runner) -> None:
    async def main() -> float:
        loop = virtual_loop()
        loop.call_later(5, lambda: None).cancel()
        async with asyncio.timeout(50):
            await asyncio.sleep(10)
        return loop.time()

    assert virtual_time.run(main()) == 10


def test_a_cancelled_timer_counts_as_none_when_all_tasks_wait(virtual_time: asyncio.Runner) -> None:
    async def main() -> None:
        virtual_loop().call_later(5, print).cancel()
        await asyncio.Event().wait()

    with pytest.raises(AllTasksWaitError) as caught:
        virtual_time.run(main())
    assert caught.value.now_ns == 0


def test_cancelled_timers_do_not_pile_up(virtual_time: asyncio.Runner) -> None:
    async def main() -> int:
        loop = virtual_loop()
        kept = [loop.call_later(1_000_000, lambda: None) for _ in range(10)]
        for _ in range(5_000):
            loop.call_later(3_600, lambda: None).cancel()
        assert not any(timer.cancelled() for timer in kept)
        return len(loop._timers)

    assert virtual_time.run(main()) < 1_000


def test_a_timer_cancelled_in_the_very_pass_it_is_due_does_not_run(virtual_time: asyncio.Runner) -> None:
    ran: list[str] = []

    async def main() -> None:
        loop = virtual_loop()
        handles: list[asyncio.TimerHandle] = []

        def cancel_the_other() -> None:
            handles[0].cancel()

        loop.set_exception_handler(lambda _loop, context: ran.append(str(context)))
        loop.call_later(1, cancel_the_other)
        handles.append(loop.call_later(1, ran.append, "cancelled"))
        await asyncio.sleep(2)
        handles[0].cancel()

    virtual_time.run(main())
    assert ran == []


def test_tasks_that_all_wait_for_ever_are_named_with_the_place(virtual_time: asyncio.Runner) -> None:
    async def wait_for_godot() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        waiting = asyncio.create_task(wait_for_godot(), name="vladimir")
        await waiting

    with pytest.raises(AllTasksWaitError, match="every task waits and no timer is set") as caught:
        virtual_time.run(main())
    assert len(caught.value.waiting) == 2
    assert "main" in caught.value.waiting[0]
    assert "await waiting" in caught.value.waiting[0]
    assert caught.value.waiting[1].startswith("vladimir (")
    assert "wait_for_godot" in caught.value.waiting[1]
    assert "await asyncio.Event().wait()" in caught.value.waiting[1]


def test_the_loop_can_be_used_again_after_all_tasks_waited(virtual_time: asyncio.Runner) -> None:
    async def stuck() -> None:
        await asyncio.Event().wait()

    async def fine() -> str:
        await asyncio.sleep(1)
        return "done"

    with pytest.raises(AllTasksWaitError):
        virtual_time.run(stuck())
    assert virtual_time.run(fine()) == "done"


REAL_WAITS: list[Callable[[asyncio.AbstractEventLoop], object]] = [
    lambda loop: loop.create_connection(asyncio.Protocol, "127.0.0.1", 1),
    lambda loop: loop.create_server(asyncio.Protocol, "127.0.0.1", 0),
    lambda loop: loop.create_unix_server(asyncio.Protocol, "x"),
    lambda loop: loop.getaddrinfo("localhost", 80),
    lambda loop: loop.add_signal_handler(15, print),
    lambda loop: loop.add_reader(0, print),
    lambda loop: loop.subprocess_exec(asyncio.SubprocessProtocol, "true"),
]


@pytest.mark.parametrize("begin", REAL_WAITS)
def test_waiting_for_something_real_raises(
    virtual_time: asyncio.Runner, begin: Callable[[asyncio.AbstractEventLoop], object]
) -> None:
    async def main() -> None:
        answer = begin(asyncio.get_running_loop())
        if isinstance(answer, Awaitable):
            await answer

    with pytest.raises(RealWaitError, match="nothing real"):
        virtual_time.run(main())


def test_high_level_networking_raises_too(virtual_time: asyncio.Runner) -> None:
    with pytest.raises(RealWaitError):
        virtual_time.run(asyncio.open_connection("127.0.0.1", 1))


def test_executor_work_runs_inline_at_once(virtual_time: asyncio.Runner) -> None:
    order: list[str] = []

    def work(name: str) -> str:
        order.append(name)
        return name.upper()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(None, work, "first")
        order.append("after the call")
        assert future.done()
        assert await future == "FIRST"
        assert await asyncio.to_thread(work, "second") == "SECOND"
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 // 0)
        assert loop.time() == 0

    virtual_time.run(main())
    assert order == ["first", "after the call", "second"]


def test_context_variables_and_task_names_travel_as_usual(virtual_time: asyncio.Runner) -> None:
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")
    seen: list[str] = []

    async def main() -> None:
        who.set("me")
        virtual_loop().call_later(1, lambda: seen.append(who.get()))
        named = asyncio.create_task(asyncio.sleep(2), name="napper")
        assert named.get_name() == "napper"
        await named

    virtual_time.run(main())
    assert seen == ["me"]


def test_an_error_in_a_callback_reaches_the_exception_handler_and_the_loop_goes_on(
    virtual_time: asyncio.Runner,
) -> None:
    caught: list[object] = []

    async def main() -> float:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: caught.append(context["exception"]))
        loop.call_later(1, lambda: 1 // 0)
        await asyncio.sleep(2)
        return loop.time()

    assert virtual_time.run(main()) == 2
    assert [type(error) for error in caught] == [ZeroDivisionError]


def test_asynchronous_generators_left_open_are_closed(virtual_time: asyncio.Runner) -> None:
    closed: list[bool] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            closed.append(True)

    async def main() -> None:
        async for _ in numbers():
            break

    virtual_time.run(main())
    gc.collect()
    virtual_time.run(asyncio.sleep(0))
    assert closed == [True]


def test_a_task_group_cancels_its_children_and_gathers_their_errors(virtual_time: asyncio.Runner) -> None:
    ended: list[str] = []

    async def child(name: str, fails_at: float | None) -> None:
        try:
            await asyncio.sleep(fails_at if fails_at is not None else 1_000)
            raise ValueError(name)
        except asyncio.CancelledError:
            ended.append(name)
            raise

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for name in "abcdefghij":
                group.create_task(child(name, 1 if name == "d" else None))

    with pytest.raises(ExceptionGroup):
        virtual_time.run(main())
    assert sorted(ended) == list("abcefghij")


# Sets of tasks inside asyncio are walked in hash order; with addresses as hashes this would differ from run to run.
CANCEL_ORDER = """
import asyncio
from bigfleet.testing.loop import run_virtual
ended = []
async def child(name):
    try:
        await asyncio.sleep(1000)
    finally:
        ended.append(name)
async def fail():
    await asyncio.sleep(1)
    raise ValueError
async def main():
    clutter = [bytearray(n % 977) for n in range(CLUTTER)]
    async with asyncio.TaskGroup() as group:
        for name in range(40):
            group.create_task(child(name))
        group.create_task(fail())
try:
    run_virtual(main())
except ExceptionGroup:
    print(ended)
"""


def test_the_order_of_cancellations_is_the_same_in_every_process() -> None:
    answers = [
        subprocess.run(
            [sys.executable, "-c", CANCEL_ORDER.replace("CLUTTER", str(clutter))],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed, clutter in ((0, 0), (1, 5000), (2, 333))
    ]
    assert answers[0].count(",") == 39
    assert answers == [answers[0]] * 3


def test_a_closed_loop_refuses_timers_and_tasks() -> None:
    loop = VirtualTimeLoop()
    loop.close()
    nap = asyncio.sleep(1)
    with pytest.raises(RuntimeError, match="closed"):
        loop.call_later(1, print)
    with pytest.raises(RuntimeError, match="closed"):
        loop.create_task(nap)
    nap.close()


def test_virtual_loop_says_when_another_kind_of_loop_runs() -> None:
    async def main() -> None:
        virtual_loop()

    with pytest.raises(TypeError, match="VirtualTimeLoop"):
        asyncio.run(main())
