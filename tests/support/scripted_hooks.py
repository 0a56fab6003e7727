"""Hooks without processes, for tests on virtual time.

A reply that takes time can be cancelled and is then listed in `ended`, as a process would be.
"""

import json
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bigfleet.aio.clock import Clock
from bigfleet.provider.hook.core.inventory import HookKind
from bigfleet.provider.hook.processes import CommandResult, HookCommand, SpawnError


@dataclass(frozen=True, slots=True)
class HookReply:
    """How a hook ends: its duration, exit code and output."""

    code: int = 0
    output: str = ""
    errors: tuple[str, ...] = ()
    takes_s: float = 0.0


@dataclass(frozen=True, slots=True)
class HookCall:
    """One call of a hook."""

    kind: HookKind
    machine_id: str
    program: str
    document: Mapping[str, Any] = field(repr=False)  # Any: the JSON of standard input
    environment: Mapping[str, str] = field(repr=False)


class ScriptedProcesses:
    """Every hook succeeds at once unless a reply is set."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.calls: list[HookCall] = []
        self.running: list[HookCall] = []
        self.most_at_once = 0
        self.ended: list[HookCall] = []
        """Calls that were cancelled, for example by a timeout."""
        self.on_call: Callable[[HookCall], None] | None = None
        """Called at the start of every hook."""
        self._next: dict[HookKind, deque[HookReply]] = {}
        self._always: dict[HookKind, HookReply | SpawnError] = {}

    def next(self, kind: HookKind, *replies: HookReply) -> None:
        """Set the replies of the next calls of a kind, in order."""
        self._next.setdefault(kind, deque()).extend(replies)

    def always(self, kind: HookKind, reply: HookReply | SpawnError) -> None:
        """Set the reply of every other call of a kind."""
        self._always[kind] = reply

    def count(self, kind: HookKind, machine_id: str = "") -> int:
        """Return how many calls of a kind there were, for one machine or for all."""
        return sum(call.kind is kind and machine_id in ("", call.machine_id) for call in self.calls)

    async def run(self, command: HookCommand, on_error_line: Callable[[str], None]) -> CommandResult:
        kind, machine_id = HookKind(command.arguments[0]), "".join(command.arguments[1:])
        call = HookCall(
            kind, machine_id, command.program, json.loads(command.stdin), dict(command.environment)
        )
        self.calls.append(call)
        self.running.append(call)
        self.most_at_once = max(self.most_at_once, len(self.running))
        done = False
        try:
            if self.on_call is not None:
                self.on_call(call)
            waiting = self._next.get(kind)
            reply = waiting.popleft() if waiting else self._always.get(kind, HookReply())
            if isinstance(reply, SpawnError):
                done = True
                raise reply
            await self._clock.sleep(reply.takes_s)
            for line in reply.errors:
                on_error_line(line)
            done = True
            return CommandResult(reply.code, reply.output.encode())
        finally:
            self.running.remove(call)
            if not done:
                self.ended.append(call)
