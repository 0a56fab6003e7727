"""An asyncio loop on virtual time: an hour takes milliseconds, and every run is the same.

Why: production code that waits can be tested exactly, without sleeping, and a whole fleet can run in one thread.
Must never: wait for anything real. Sockets, pipes, signals and child processes raise `RealWaitError`; work given to an
executor runs inline at once.
Rules: `testing#constructor-seams`. Ready callbacks run first in, first out; timers by (due time, creation number); when
nothing is ready the time moves to the next timer; when there is no timer either, `AllTasksWaitError` names the waiting
tasks.

It replaces `_run_once` and the timers of `asyncio.BaseEventLoop`. They are private, but unchanged since Python 3.4, and the
tests of this module fail if they change.
"""

import asyncio
import contextvars
import heapq
import linecache
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from typing import Any, NoReturn, TypeVar, TypeVarTuple, Unpack

from bigfleet.aio.clock import NANOSECONDS, nanoseconds
from bigfleet.model.errors import BigFleetError

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# Cancelled timers stay in the heap until they are due; above this many the heap is rebuilt without them.
_CANCELLED_TIMERS_KEPT = 256


class AllTasksWaitError(BigFleetError):
    """Nothing is ready and no timer is set, so the tasks would wait forever."""

    def __init__(self, now_ns: int, waiting: tuple[str, ...]) -> None:
        who = "".join(f"\n  {line}" for line in waiting) or " there is no task at all"
        super().__init__(f"every task waits and no timer is set at virtual {now_ns / NANOSECONDS} s:{who}")
        self.now_ns, self.waiting = now_ns, waiting


class RealWaitError(BigFleetError):
    """Code on the virtual loop tried to wait for something real."""

    def __init__(self, method: str) -> None:
        super().__init__(f"loop.{method}: the virtual-time loop waits for nothing real; use the seam for it")
        self.method = method


class _NumberedTask(asyncio.Task[T]):
    """A task that hashes by its number: asyncio keeps tasks in sets, and addresses would change their order in each run."""

    def __init__(
        self, number: int, coro: Generator[Any, None, T] | Coroutine[Any, Any, T], **options: Any
    ) -> None:
        self.number = number
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self.number


class _NumberedFuture(asyncio.Future[T]):
    """A future that hashes by its number, for the same reason."""

    def __init__(self, number: int, loop: asyncio.AbstractEventLoop) -> None:
        self.number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self.number


class _Timer(asyncio.TimerHandle):
    """A timer that informs its loop when it is cancelled in the heap."""

    __slots__ = ("in_heap", "on_cancel")

    in_heap: bool
    on_cancel: Callable[[], None]

    def cancel(self) -> None:
        if not self.cancelled():
            super().cancel()
            if self.in_heap:
                self.on_cancel()


class VirtualTimeLoop(asyncio.BaseEventLoop):
    """An event loop whose time is an exact number of nanoseconds; `time()` is the nearest float."""

    _ready: deque[asyncio.Handle]  # of the base class, which does not declare them
    _stopping: bool

    def __init__(self, start_ns: int = 0) -> None:
        super().__init__()
        self._now_ns = start_ns
        self._timers: list[tuple[int, int, _Timer]] = []
        self._cancelled_timers = 0
        self._numbers = 0

    @property
    def now_ns(self) -> int:
        """The virtual time."""
        return self._now_ns

    def time(self) -> float:
        return self._now_ns / NANOSECONDS

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at_ns(self._now_ns + nanoseconds(delay), callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call back at a time of `time()`; exact to the nanosecond for the first hundred days."""
        return self.call_at_ns(nanoseconds(when), callback, *args, context=context)

    def call_at_ns(
        self,
        when_ns: int,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call back at a time of `now_ns`, equal times in the order of these calls; a past time is due at once."""
        self._refuse_when_closed()
        timer = _Timer(when_ns / NANOSECONDS, callback, args, self, context)
        timer.in_heap, timer.on_cancel = True, self._on_timer_cancelled
        heapq.heappush(self._timers, (when_ns, self._next_number(), timer))
        return timer

    def create_task(
        self, coro: Generator[Any, None, T] | Coroutine[Any, Any, T], **options: Any
    ) -> asyncio.Task[T]:
        self._refuse_when_closed()
        number = self._next_number()
        # Python's own names count over all loops of a process, so two runs of a seed would differ.
        if options.get("name") is None:
            options["name"] = f"task-{number}"
        return _NumberedTask(number, coro, loop=self, **options)

    def create_future(self) -> asyncio.Future[Any]:
        return _NumberedFuture(self._next_number(), self)

    def run_in_executor(
        self, _executor: object, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Run the work now, on this thread, and return its finished future."""
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            # The kill of a virtual process is not an Exception, and passes through the caller.
            done.set_exception(error)
        return done

    def call_soon_threadsafe(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """Call soon; there is only one thread here."""
        return self.call_soon(callback, *args, context=context)

    def close(self) -> None:
        super().close()
        self._timers.clear()

    def _refuse_when_closed(self) -> None:
        if self.is_closed():
            raise RuntimeError("the virtual-time loop is closed")

    def _next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _run_once(self) -> None:
        """Move the time if nothing is ready, then run what is ready now, but nothing scheduled meanwhile."""
        # The time must never move to a cancelled timer.
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
            self._cancelled_timers -= 1
        if not self._ready and not self._stopping:
            if not self._timers:
                raise AllTasksWaitError(self._now_ns, _who_waits(self))
            self._now_ns = max(self._now_ns, self._timers[0][0])
        while self._timers and self._timers[0][0] <= self._now_ns:
            _, _, timer = heapq.heappop(self._timers)
            timer.in_heap = False
            if timer.cancelled():
                self._cancelled_timers -= 1
            else:
                self._ready.append(timer)
        for _ in range(len(self._ready)):
            handle = self._ready.popleft()
            if not handle.cancelled():
                handle._run()

    def _on_timer_cancelled(self) -> None:
        self._cancelled_timers += 1
        if self._cancelled_timers > max(_CANCELLED_TIMERS_KEPT, len(self._timers) // 2):
            self._timers = [entry for entry in self._timers if not entry[2].cancelled()]
            heapq.heapify(self._timers)
            self._cancelled_timers = 0


def _refuse(method: str) -> Callable[..., NoReturn]:
    def refuse(*_args: object, **_options: object) -> NoReturn:
        raise RealWaitError(method)

    return refuse


_REAL_WAITS = (
    "add_reader",
    "add_signal_handler",
    "add_writer",
    "connect_accepted_socket",
    "connect_read_pipe",
    "connect_write_pipe",
    "create_connection",
    "create_datagram_endpoint",
    "create_server",
    "create_unix_connection",
    "create_unix_server",
    "getaddrinfo",
    "getnameinfo",
    "sendfile",
    "sock_accept",
    "sock_connect",
    "sock_recv",
    "sock_recv_into",
    "sock_recvfrom",
    "sock_recvfrom_into",
    "sock_sendall",
    "sock_sendfile",
    "sock_sendto",
    "start_tls",
    "subprocess_exec",
    "subprocess_shell",
)
for _method in _REAL_WAITS:
    setattr(VirtualTimeLoop, _method, _refuse(_method))


def run_virtual(main: Coroutine[Any, Any, T], *, start_ns: int = 0) -> T:
    """Run a coroutine in virtual time and return its result; tasks that it leaves behind are cancelled."""
    with asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(start_ns)) as runner:
        return runner.run(main)


def wake(waiter: "asyncio.Future[None]") -> None:
    """Complete a future, unless it is done or cancelled."""
    if not waiter.done():
        waiter.set_result(None)


def virtual_loop() -> VirtualTimeLoop:
    """Return the running loop, which must be a virtual one."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualTimeLoop):
        raise TypeError(f"a VirtualTimeLoop must run here, not {type(loop).__name__}")
    return loop


def _who_waits(loop: VirtualTimeLoop) -> tuple[str, ...]:
    tasks = sorted(asyncio.all_tasks(loop), key=lambda task: (hash(task), task.get_name()))
    return tuple(_describe(task) for task in tasks)


def _describe(task: asyncio.Task[Any]) -> str:
    coroutine = task.get_coro()
    what = getattr(coroutine, "__qualname__", None) or repr(coroutine)
    stack = task.get_stack()
    if not stack:
        return f"{task.get_name()} ({what})"
    frame = stack[-1]
    path, line = frame.f_code.co_filename, frame.f_lineno
    source = linecache.getline(path, line).strip()
    return f"{task.get_name()} ({what}) at {path}:{line}{f': {source}' if source else ''}"
