"""The verbs of the control: name, description, fields, and the call of `FakeProvider` for a JSON body.

HTTP, page and scripts share this table. Must never: accept a field that a verb does not have.
Rules: `providers#fake-control`; the matrix of `providers#fault-injection` is reached through these.
"""

from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypedDict

from bigfleet.aio.net import Code
from bigfleet.document.errors import DocumentError
from bigfleet.document.fields import REQUIRED, Fields, Form
from bigfleet.model.machine import CapacityType, MachineState
from bigfleet.provider.contract import INT64_MAX, STATES, OperationKind
from bigfleet.provider.fake.injected_faults import FailureMode
from bigfleet.provider.fake.inventory import POOL, pool_of, read_form
from bigfleet.provider.fake.provider import FORCED, FakeProvider
from bigfleet.provider.fake.selector import Selector
from bigfleet.provider.fake.specs import ANY
from bigfleet.provider.kit.core.fence import FencingToken
from bigfleet.provider.kit.core.values import MachineRecord

Answer = Awaitable[object]
Run = Callable[[FakeProvider, Fields], Answer]

SELECTOR: Final[Form] = {
    "id": "",
    "prefix": "",
    "state": "",
    "zone": "",
    "instance_type": "",
    "capacity_type": "",
    "cluster": "",
    "limit": 0,
}
_SHOWN: Final = 1000
_STATES: Final[Mapping[str, tuple[MachineState, ...]]] = {
    "": (),
    **{state.label: (state,) for state in STATES},
}
_CAPACITY_TYPES: Final[Mapping[str, CapacityType | None]] = {
    "": None,
    **{kind.label: kind for kind in CapacityType if kind},
}
_COUNT: Final = (0, 2**31 - 1)
_CALL_FAULT: Final[Form] = {"rpc": ANY, "probability": 1, "times": 0, "seconds": None}
_EPOCH: Final = (0, INT64_MAX)
_TOKEN_PART: Final = (-INT64_MAX - 1, INT64_MAX)


class _Window(TypedDict):
    probability: float
    times: int | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb; those with `changes` are POST, the others GET."""

    name: str
    about: str
    form: Form
    run: Run
    changes: bool = True

    async def __call__(self, fake: FakeProvider, body: object) -> object:
        """Carry it out and return its result; `InvalidFieldError` names an invalid field."""
        return await self.run(fake, read_form(body, self.form))

    @property
    def as_dict(self) -> dict[str, object]:
        fields = {name: None if default is REQUIRED else default for name, default in self.form.items()}
        needed = [name for name, default in self.form.items() if default is REQUIRED]
        return {
            "name": self.name,
            "about": self.about,
            "fields": fields,
            "required": needed,
            "changes": self.changes,
        }


def machine_as_dict(machine: MachineRecord) -> dict[str, object]:
    shape = machine.shape
    return {
        "id": machine.id,
        "state": machine.state.label,
        "cluster": machine.cluster,
        "host": machine.host,
        "instance_type": shape.instance_type,
        "zone": shape.zone,
        "capacity_type": shape.capacity_type.label,
        "price_per_hour": shape.price_per_hour,
        "interruption_probability": shape.interruption_probability,
        "resources": dict(shape.resources),
        "allocatable": dict(shape.allocatable),
        "labels": dict(shape.labels),
        "shard_metadata": dict(machine.shard_metadata),
        "last_error": machine.last_error,
    }


def _selector(fields: Fields, limit: int = 0) -> Selector:
    return Selector(
        id=fields.text("id"),
        prefix=fields.text("prefix"),
        states=fields.choice("state", _STATES),
        zone=fields.text("zone"),
        instance_type=fields.text("instance_type"),
        capacity_type=fields.choice("capacity_type", _CAPACITY_TYPES),
        cluster=fields.text("cluster"),
        limit=fields.integer("limit", _COUNT) or limit,
    )


def _rpc(fields: Fields) -> str:
    return fields.text("rpc") or ANY


def _seconds(fields: Fields) -> float | None:
    seconds = fields.number_or_null("seconds")
    if seconds is not None and seconds < 0:
        raise DocumentError("seconds", f"{seconds:g}", "0 or more seconds, or null")
    return seconds


def _share(fields: Fields) -> float:
    share = fields.number("probability", low=0, allowed="a number from 0 to 1")
    if share > 1:
        raise DocumentError("probability", f"{share:g}", "a number from 0 to 1")
    return share


def _window(fields: Fields) -> _Window:
    times = fields.integer("times", _COUNT) or None
    return {"probability": _share(fields), "times": times, "seconds": _seconds(fields)}


VERBS: Final[dict[str, Verb]] = {}
"""Every verb by its name, in the order of the page."""


def _verb(name: str, about: str, form: Form, *, changes: bool = True) -> Callable[[Run], Run]:
    def register(run: Run) -> Run:
        VERBS[name] = Verb(name, about, form, run, changes)
        return run

    return register


@_verb("machines", "records as they really are, 1,000 unless limit says otherwise", SELECTOR, changes=False)
async def _machines(fake: FakeProvider, fields: Fields) -> object:
    return [machine_as_dict(machine) for machine in fake.machines(_selector(fields, _SHOWN))]


@_verb("stats", "numbers, and everything that is wrong at present", {}, changes=False)
async def _stats(fake: FakeProvider, _fields: Fields) -> object:
    return fake.stats()


@_verb("calls", "calls that came in, with their tokens", {"rpc": "", "id": "", "last": 0}, changes=False)
async def _calls(fake: FakeProvider, fields: Fields) -> object:
    found = fake.calls(
        rpc=fields.text("rpc"), machine_id=fields.text("id"), last=fields.integer("last", _COUNT)
    )
    return [call.as_dict() for call in found]


@_verb("log", "what happened, one JSON object per line", {"last": 0}, changes=False)
async def _log(fake: FakeProvider, fields: Fields) -> object:
    lines = fake.events.lines
    last = fields.integer("last", _COUNT)
    return list(lines[-last:] if last else lines)


@_verb(
    "fail-next",
    "let the next operations go wrong: fail, stockout, transient, hang or late",
    {"id": "", "kind": "", "times": 1, "message": "injected failure", "how": "fail"},
)
async def _fail_next(fake: FakeProvider, fields: Fields) -> object:
    fake.fail_next(
        fields.text("id"),
        fields.text("kind"),
        times=fields.integer("times", (1, 2**31 - 1)),
        message=fields.text("message"),
        how=fields.choice("how", {how.value: how for how in FailureMode}),
    )
    return {}


@_verb("fail", "let machines fail at once", {**SELECTOR, "reason": FORCED})
async def _fail(fake: FakeProvider, fields: Fields) -> object:
    return {"failed": await fake.fail(_selector(fields), fields.text("reason") or FORCED)}


@_verb("hold", "let operations of a machine or kind stand still", {"id": "", "kind": ""})
async def _hold(fake: FakeProvider, fields: Fields) -> object:
    fake.hold(fields.text("id"), fields.text("kind"))
    return {}


@_verb("release", "let them go on; without fields all of them", {"id": "", "kind": ""})
async def _release(fake: FakeProvider, fields: Fields) -> object:
    return {"released": fake.release(fields.text("id"), fields.text("kind"))}


@_verb(
    "joining",
    "machines that were configured and wait for their node, with the blob in base64",
    {"cluster": ""},
    changes=False,
)
async def _joining(fake: FakeProvider, fields: Fields) -> object:
    return [
        {
            **machine_as_dict(joining.machine),
            "operation": joining.operation_id,
            "blob": b64encode(joining.blob).decode(),
        }
        for joining in fake.joining(fields.text("cluster"))
    ]


@_verb("joined", "say that the node of a machine is Ready", {"id": REQUIRED})
async def _joined(fake: FakeProvider, fields: Fields) -> object:
    return {"joined": fake.joined(fields.name("id"))}


@_verb("emptied", "say that a node that drains is empty", {"id": REQUIRED})
async def _emptied(fake: FakeProvider, fields: Fields) -> object:
    fake.emptied(fields.name("id"))
    return {}


@_verb("latency", "how long a step or call takes", {"kind": REQUIRED, "spec": REQUIRED})
async def _latency(fake: FakeProvider, fields: Fields) -> object:
    fake.latency(fields.text("kind"), fields.text("spec"))
    return {}


@_verb(
    "stockout",
    "fail Creates for want of stock from now on, for so many seconds or for good",
    {"type": ANY, "zone": ANY, "capacity_type": ANY, "seconds": None, "over": False},
)
async def _stockout(fake: FakeProvider, fields: Fields) -> object:
    fake.stockout(
        fields.text("type") or ANY,
        fields.text("zone") or ANY,
        capacity_type=fields.text("capacity_type") or ANY,
        seconds=_seconds(fields) or 0.0,
        over=fields.flag("over"),
    )
    return {}


@_verb(
    "price", "change price or interruption probability", {"selector": {}, "price": None, "probability": None}
)
async def _price(fake: FakeProvider, fields: Fields) -> object:
    changed = await fake.price(
        _selector(fields.part("selector", SELECTOR)),
        price=fields.number_or_null("price"),
        probability=fields.number_or_null("probability"),
    )
    return {"changed": changed}


@_verb("add", "let the substrate have more machines: one pool", POOL)
async def _add(fake: FakeProvider, fields: Fields) -> object:
    return {"added": await fake.add([pool_of(fields)])}


@_verb("remove", "take a machine away, also a bound one", {"id": REQUIRED, "without_trace": False})
async def _remove(fake: FakeProvider, fields: Fields) -> object:
    removed = await fake.remove(fields.name("id"), without_trace=fields.flag("without_trace"))
    return {"removed": removed}


@_verb("shed", "lose a share of the Speculative slots", {"fraction": REQUIRED})
async def _shed(fake: FakeProvider, fields: Fields) -> object:
    return {"shed": await fake.shed(fields.number("fraction"))}


@_verb("repair", "bring a Failed machine back", {"id": REQUIRED, "to": "Idle"})
async def _repair(fake: FakeProvider, fields: Fields) -> object:
    states = {state.label: state for state in (MachineState.IDLE, MachineState.SPECULATIVE)}
    await fake.repair(fields.name("id"), fields.choice("to", states))
    return {}


@_verb(
    "reset-marks",
    "lower the fence marks of a shard above the epoch of its right process",
    {"shard_id": REQUIRED, "epoch": REQUIRED},
)
async def _reset_marks(fake: FakeProvider, fields: Fields) -> object:
    return {"lowered": await fake.reset_marks(fields.name("shard_id"), fields.integer("epoch", _EPOCH))}


@_verb("lie", "tell a lie from now on", {"name": REQUIRED, "share": None})
async def _lie(fake: FakeProvider, fields: Fields) -> object:
    fake.lie(fields.text("name"), fields.number_or_null("share"))
    return {"lies": fake.active_lies.shares}


@_verb("honest", "tell the truth again, about one thing or all", {"name": ""})
async def _honest(fake: FakeProvider, fields: Fields) -> object:
    fake.honest(fields.text("name"))
    return {"lies": fake.active_lies.shares}


@_verb("pause-rpc", "let calls wait for so long from now", {"rpc": ANY, "seconds": REQUIRED})
async def _pause_rpc(fake: FakeProvider, fields: Fields) -> object:
    fake.pause_rpc(_rpc(fields), fields.number("seconds", low=0))
    return {}


@_verb(
    "refuse",
    "refuse calls before anything happens",
    {**_CALL_FAULT, "code": "INTERNAL", "message": "injected refusal"},
)
async def _refuse(fake: FakeProvider, fields: Fields) -> object:
    fake.refuse(
        _rpc(fields),
        code=fields.choice("code", {code.name: code for code in Code if code}),
        message=fields.text("message"),
        **_window(fields),
    )
    return {}


@_verb("lose-answer", "do what calls ask for, never answer", _CALL_FAULT)
async def _lose_answer(fake: FakeProvider, fields: Fields) -> object:
    fake.lose_answer(_rpc(fields), **_window(fields))
    return {}


@_verb("reset-during", "do it, and break every connection instead of answering", _CALL_FAULT)
async def _reset_during(fake: FakeProvider, fields: Fields) -> object:
    fake.reset_during(_rpc(fields), **_window(fields))
    return {}


@_verb(
    "call",
    "call in the name of another shard",
    {
        "rpc": REQUIRED,
        "id": REQUIRED,
        "shard_id": "",
        "epoch": 0,
        "sequence": 0,
        "cluster": "",
        "grace_s": 0,
    },
)
async def _call(fake: FakeProvider, fields: Fields) -> object:
    token = FencingToken(
        fields.text("shard_id"), fields.integer("epoch", _TOKEN_PART), fields.integer("sequence", _TOKEN_PART)
    )
    code, text = await fake.call(
        fields.choice("rpc", {kind.call: kind.value for kind in OperationKind}),
        fields.name("id"),
        token,
        cluster=fields.text("cluster"),
        grace_s=fields.integer("grace_s", _COUNT),
    )
    return {"code": code.name, "operation" if code is Code.OK else "detail": text}


@_verb("restart", "end like a killed process, start again on the state or on nothing", {"forget": False})
async def _restart(fake: FakeProvider, fields: Fields) -> object:
    await fake.restart(forget=fields.flag("forget"))
    return {"machines": len(fake.kit.state.table)}


@_verb("reset", "begin anew: no state, no faults but those of the flags", {})
async def _reset(fake: FakeProvider, _fields: Fields) -> object:
    await fake.reset()
    return {"machines": len(fake.kit.state.table)}
