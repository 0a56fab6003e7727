"""The world of engine scripts: machines, demand, time, and an engine that decides cycles on them.

Why: every engine, the naive one and the fast one, answers the same scripts.
Rules: `engine#cycle-order`, `engine#report-gate`, `engine#parking-ledger`.

    machine …, need …          see `tests.support.engine.words`
    lose ID                    the machine is gone             needs none      all demand is gone
    park x                     the gang of cluster x, or x/A, is parked; `unpark`: none is
    reported a,b               only these clusters have reported; `reported none`: nobody
    holds 0/0                  seconds an OnDemand / a Spot machine may idle
    wait 600                   time passes                     fresh           everything is forgotten
    cycle                      decide and print
    claims, verdicts, candidates, unresolved, demand, parking  more about the last decision
    apply                      its actions are done at once; `start`: only begun; `finish ID`: that one ends
    run 65                     that many cycles without actions between, printing when a gang is parked
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from bigfleet.document.compare_costs import first_actions
from bigfleet.explain.carry_out import at_once, begun, finished, need_of
from bigfleet.model.decision import Decision
from bigfleet.model.machine import Machine, MachineState, NeedRef, check
from bigfleet.model.need import Need
from bigfleet.model.situation import GangRef, IdleHolds, Situation
from tests.support.engine import answers as engine_answers
from tests.support.engine.words import MachineLine, ids, machine_lines, needs_of_line
from tests.support.golden import ScriptError

Engine = Callable[[Situation], Decision]

PARKED_AFTER, FREE_TRY_EVERY = 8, 32
NOON = 1_700_000_000.0


class ParkingLedger:
    """How long each gang has stalled, from decisions alone (11.2)."""

    def __init__(self) -> None:
        self.ages: dict[GangRef, int] = {}

    def note(self, decision: Decision) -> None:
        """Take one cycle into account; a gang that is not stalled in it is forgotten."""
        stalled = [
            GangRef(verdict.need.cluster, verdict.need.group, verdict.need.profile.fingerprint)
            for verdict in decision.verdicts
            if verdict.need.profile.same_key is not None
            and not verdict.satisfied
            and not (verdict.bootstrapped or verdict.provisioned or verdict.structurally_satisfiable)
        ]
        self.ages = {gang: self.ages.get(gang, 0) + 1 for gang in stalled}

    def parked(self) -> frozenset[GangRef]:
        """The gangs that are parked in the next cycle."""
        return frozenset(
            gang for gang, age in self.ages.items() if age >= PARKED_AFTER and age % FREE_TRY_EVERY
        )


class EngineWorld:
    """Everything a script builds up; one command is one line."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._start_over()
        self._commands: dict[str, Callable[[Sequence[str]], Sequence[str] | None]] = {
            "machine": self._machine,
            "lose": lambda words: self._lose(*words),
            "need": lambda words: self._needs.extend(needs_of_line(words)),
            "needs": lambda _: self._needs.clear(),
            "park": lambda words: self._parked.add(words[0]),
            "unpark": lambda _: self._parked.clear(),
            "reported": self._set_reported,
            "holds": self._set_holds,
            "wait": self._wait,
            "fresh": lambda _: self._start_over(),
            "cycle": lambda _: engine_answers.cycle(self._cycle()),
            "claims": lambda _: engine_answers.claims(self._last),
            "verdicts": lambda _: engine_answers.verdicts(self._last),
            "candidates": lambda _: engine_answers.candidates(self._last),
            "unresolved": lambda _: engine_answers.unresolved(self._last),
            "demand": lambda _: engine_answers.demand(self._last),
            "parking": lambda _: self._parking(),
            "apply": lambda _: self._apply(),
            "start": lambda _: self._begin(),
            "finish": lambda words: self._finish(words[0]),
            "run": lambda words: self._run(int(words[0])),
        }

    def command(self, words: Sequence[str]) -> Sequence[str]:
        """Do what one line says and return what there is to say about it."""
        known = self._commands.get(words[0])
        if known is None:
            raise ScriptError(f"{words[0]!r} is none of {', '.join(self._commands)}")
        return known(words[1:]) or ()

    def _start_over(self) -> None:
        self._now = NOON
        self._machines: dict[str, MachineLine] = {}
        self._needs: list[Need] = []
        self._parked: set[str] = set()
        self._reported: frozenset[str] | None = None
        self._holds = IdleHolds()
        self._ledger = ParkingLedger()
        self._serving: dict[str, Need] = {}
        self._last = Decision((), (), ())

    def _machine(self, words: Sequence[str]) -> None:
        for line in machine_lines(words, self._now):
            check(line.machine)
            self._machines[line.machine.id] = line

    def _lose(self, *machine_ids: str) -> None:
        for text in machine_ids:
            for machine_id in ids(text):
                del self._machines[machine_id]

    def _set_reported(self, words: Sequence[str]) -> None:
        self._reported = frozenset() if words[0] == "none" else frozenset(words[0].split(","))

    def _set_holds(self, words: Sequence[str]) -> None:
        on_demand, spot = words[0].split("/")
        self._holds = IdleHolds(float(on_demand), float(spot))

    def _wait(self, words: Sequence[str]) -> None:
        self._now += float(words[0])

    def _cycle(self) -> Decision:
        self._last = self._engine(self.situation())
        self._ledger.note(self._last)
        return self._last

    def situation(self) -> Situation:
        """What the next cycle will decide on."""
        return Situation(
            now=self._now,
            machines=tuple(self._stamped(line) for line in self._machines.values()),
            needs=tuple(self._needs),
            parked=self._ledger.parked() | {self._gang(name) for name in self._parked},
            reported_clusters=self._reported,
            holds=self._holds,
        )

    def _named_need(self, name: str) -> Need:
        """The need of `cluster/group`; that of the cluster alone where the group is another's."""
        cluster, _, group = name.partition("/")
        of_cluster = [need for need in self._needs if need.cluster == cluster]
        if not of_cluster:
            raise ScriptError(f"{name!r} is no cluster with a need")
        return next((need for need in of_cluster if need.group == group), of_cluster[0])

    def _gang(self, name: str) -> GangRef:
        need = self._named_need(name)
        return GangRef(need.cluster, need.group, need.profile.fingerprint)

    def _stamped(self, line: MachineLine) -> Machine:
        machine = line.machine
        if name := line.stamp or line.folded_stamp:
            cluster, _, group = name.partition("/")
            profile = self._named_need(name).profile
            fingerprint = (profile if line.stamp else profile.without_same).fingerprint
            to = machine.assigned.cluster or (cluster if machine.state is MachineState.CREATING else "")
            stamp = replace(
                machine.assigned, fingerprint=fingerprint, group=group, cluster="" if to == "-" else to
            )
            machine = replace(machine, assigned=stamp)
        if line.draining_for:
            machine = replace(machine, draining_for=NeedRef(*self._named_need(line.draining_for).stamp_key))
        return machine

    def _parking(self) -> list[str]:
        lines = [f"{gang.cluster} has stalled for {age}" for gang, age in sorted(self._ledger.ages.items())]
        return lines or ["no gang has stalled"]

    def _begin(self) -> None:
        for machine_id, action in first_actions(self._last.actions).items():
            need = need_of(action, self._last)
            if need is not None:
                self._serving[machine_id] = need
            machine = begun(self._stamped(self._machines[machine_id]), action, need)
            self._machines[machine_id] = MachineLine(machine)

    def _finish(self, text: str) -> None:
        for machine_id in ids(text):
            machine = self._stamped(self._machines[machine_id])
            after = finished(machine, self._now, self._serving.get(machine_id))
            self._machines[machine_id] = MachineLine(after)

    def _apply(self) -> None:
        for machine_id, action in first_actions(self._last.actions).items():
            machine = self._stamped(self._machines[machine_id])
            after = at_once(machine, action, need_of(action, self._last), self._now)
            self._machines[machine_id] = MachineLine(after)

    def _run(self, cycles: int) -> list[str]:
        """Decide many cycles in a row; return in which of them each gang was parked."""
        parked: dict[str, list[int]] = {}
        for number in range(1, cycles + 1):
            decision = self._cycle()
            for name, verdict in zip(engine_answers.names(decision.verdicts), decision.verdicts, strict=True):
                if verdict.parked:
                    parked.setdefault(name, []).append(number)
        return [f"{name} is parked in cycles {_spans(numbers)}" for name, numbers in parked.items()] or [
            "nobody is parked"
        ]


def _spans(numbers: Sequence[int]) -> str:
    """Numbers as `9-32, 34-64`."""
    firsts = [number for number in numbers if number - 1 not in numbers]
    lasts = [number for number in numbers if number + 1 not in numbers]
    return ", ".join(f"{first}-{last}" for first, last in zip(firsts, lasts, strict=True))
