"""The verbs as data: name, meaning, fields; and how a JSON body becomes a call of `FakeProvider`.

Why: HTTP, page and script offer the same verbs; written once, they cannot differ.
Must never: accept a field that a verb does not have.
Rules: providers 5.2; the matrix of 5.3 is reached through these.
"""

from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from bigfleet.aio.net import Code
from bigfleet.document.errors import DocumentError
from bigfleet.document.fields import REQUIRED, Fields, Form
from bigfleet.model.machine import CapacityType, MachineState
from bigfleet.provider.contract import STATES, OperationKind
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
_TOKEN_PART: Final = (0, 2**63 - 1)


@dataclass(frozen=True, slots=True)
class Verb:
    """One thing that can be fields of the fake; `changes` ones are POST, the others GET."""

    name: str
    about: str
    form: Form
    run: Run
    changes: bool = True

    async def __call__(self, fake: FakeProvider, body: object) -> object:
        """Carry it out and return what there is to tell; `InvalidFieldError` names the field that is wrong."""
        return await self.run(fake, read_form(body, self.form))

    @property
    def as_dict(self) -> dict[str, object]:
        """Itself as plain values, for the page."""
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
    """Return a record as plain values."""
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


async def _machines(fake: FakeProvider, fields: Fields) -> object:
    return [machine_as_dict(machine) for machine in fake.machines(_selector(fields, _SHOWN))]


async def _stats(fake: FakeProvider, _asked: Fields) -> object:
    return fake.stats()


async def _calls(fake: FakeProvider, fields: Fields) -> object:
    found = fake.calls(
        rpc=fields.text("rpc"), machine_id=fields.text("id"), last=fields.integer("last", _COUNT)
    )
    return [call.as_dict() for call in found]


async def _log(fake: FakeProvider, fields: Fields) -> object:
    lines = fake.events.lines
    last = fields.integer("last", _COUNT)
    return list(lines[-last:] if last else lines)


async def _fail_next(fake: FakeProvider, fields: Fields) -> object:
    fake.fail_next(
        fields.text("id"),
        fields.text("kind"),
        times=fields.integer("times", (1, 2**31 - 1)),
        message=fields.text("message"),
        how=fields.choice("how", {how.value: how for how in FailureMode}),
    )
    return {}


async def _fail(fake: FakeProvider, fields: Fields) -> object:
    return {"failed": await fake.fail(_selector(fields), fields.text("reason") or FORCED)}


async def _hold(fake: FakeProvider, fields: Fields) -> object:
    fake.hold(fields.text("id"), fields.text("kind"))
    return {}


async def _release(fake: FakeProvider, fields: Fields) -> object:
    return {"released": fake.release(fields.text("id"), fields.text("kind"))}


async def _joining(fake: FakeProvider, fields: Fields) -> object:
    return [
        {
            **machine_as_dict(joining.machine),
            "operation": joining.operation_id,
            "blob": b64encode(joining.blob).decode(),
        }
        for joining in fake.joining(fields.text("cluster"))
    ]


async def _joined(fake: FakeProvider, fields: Fields) -> object:
    return {"joined": fake.joined(fields.name("id"))}


async def _emptied(fake: FakeProvider, fields: Fields) -> object:
    fake.emptied(fields.name("id"))
    return {}


async def _latency(fake: FakeProvider, fields: Fields) -> object:
    fake.latency(fields.text("kind"), fields.text("spec"))
    return {}


async def _stockout(fake: FakeProvider, fields: Fields) -> object:
    fake.stockout(
        fields.text("type") or ANY,
        fields.text("zone") or ANY,
        seconds=_seconds(fields) or 0.0,
        over=fields.flag("over"),
    )
    return {}


async def _price(fake: FakeProvider, fields: Fields) -> object:
    changed = await fake.price(
        _selector(fields.part("selector", SELECTOR)),
        price=fields.number_or_null("price"),
        probability=fields.number_or_null("probability"),
    )
    return {"changed": changed}


async def _add(fake: FakeProvider, fields: Fields) -> object:
    return {"added": await fake.add([pool_of(fields)])}


async def _remove(fake: FakeProvider, fields: Fields) -> object:
    removed = await fake.remove(fields.name("id"), without_trace=fields.flag("without_trace"))
    return {"removed": removed}


async def _shed(fake: FakeProvider, fields: Fields) -> object:
    return {"shed": await fake.shed(fields.number("fraction"))}


async def _repair(fake: FakeProvider, fields: Fields) -> object:
    states = {state.label: state for state in (MachineState.IDLE, MachineState.SPECULATIVE)}
    await fake.repair(fields.name("id"), fields.choice("to", states))
    return {}


async def _lie(fake: FakeProvider, fields: Fields) -> object:
    fake.lie(fields.text("name"), fields.number_or_null("share"))
    return {"lies": fake.active_lies.shares}


async def _honest(fake: FakeProvider, fields: Fields) -> object:
    fake.honest(fields.text("name"))
    return {"lies": fake.active_lies.shares}


async def _pause_rpc(fake: FakeProvider, fields: Fields) -> object:
    fake.pause_rpc(_rpc(fields), fields.number("seconds", low=0))
    return {}


async def _refuse(fake: FakeProvider, fields: Fields) -> object:
    fake.refuse(
        _rpc(fields),
        code=fields.choice("code", {code.name: code for code in Code if code}),
        message=fields.text("message"),
        probability=_share(fields),
        times=_times(fields),
        seconds=_seconds(fields),
    )
    return {}


async def _lose_answer(fake: FakeProvider, fields: Fields) -> object:
    fake.lose_answer(_rpc(fields), probability=_share(fields), times=_times(fields), seconds=_seconds(fields))
    return {}


async def _reset_during(fake: FakeProvider, fields: Fields) -> object:
    fake.reset_during(
        _rpc(fields), probability=_share(fields), times=_times(fields), seconds=_seconds(fields)
    )
    return {}


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


async def _restart(fake: FakeProvider, fields: Fields) -> object:
    await fake.restart(forget=fields.flag("forget"))
    return {"machines": len(fake.kit.state.table)}


async def _reset(fake: FakeProvider, _asked: Fields) -> object:
    await fake.reset()
    return {"machines": len(fake.kit.state.table)}


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


def _times(fields: Fields) -> int | None:
    return fields.integer("times", _COUNT) or None


_CALL_FAULT: Final[Form] = {"rpc": ANY, "probability": 1, "times": 0, "seconds": None}

VERBS: Final[dict[str, Verb]] = {
    verb.name: verb
    for verb in (
        Verb(
            "machines",
            "records as they really are, 1,000 unless limit says otherwise",
            SELECTOR,
            _machines,
            False,
        ),
        Verb("stats", "numbers, and everything that is wrong at present", {}, _stats, False),
        Verb(
            "calls", "calls that came in, with their tokens", {"rpc": "", "id": "", "last": 0}, _calls, False
        ),
        Verb("log", "what happened, one JSON object per line", {"last": 0}, _log, False),
        Verb(
            "fail-next",
            "let the next operations go wrong: fail, stockout, transient, hang or late",
            {"id": "", "kind": "", "times": 1, "message": "injected failure", "how": "fail"},
            _fail_next,
        ),
        Verb("fail", "let machines fail at once", {**SELECTOR, "reason": FORCED}, _fail),
        Verb("hold", "let operations of a machine or kind stand still", {"id": "", "kind": ""}, _hold),
        Verb("release", "let them go on; without fields all of them", {"id": "", "kind": ""}, _release),
        Verb(
            "joining",
            "machines that were configured and wait for their node, with the blob in base64",
            {"cluster": ""},
            _joining,
            False,
        ),
        Verb("joined", "say that the node of a machine is Ready", {"id": REQUIRED}, _joined),
        Verb("emptied", "say that a node that drains is empty", {"id": REQUIRED}, _emptied),
        Verb("latency", "how long a step or call takes", {"kind": REQUIRED, "spec": REQUIRED}, _latency),
        Verb(
            "stockout",
            "fail Creates for want of stock from now on, for so many seconds or for good",
            {"type": ANY, "zone": ANY, "seconds": None, "over": False},
            _stockout,
        ),
        Verb(
            "price",
            "change price or interruption probability",
            {"selector": {}, "price": None, "probability": None},
            _price,
        ),
        Verb("add", "let the substrate have more machines: one pool", POOL, _add),
        Verb(
            "remove",
            "take a machine away, also a bound one",
            {"id": REQUIRED, "without_trace": False},
            _remove,
        ),
        Verb("shed", "lose a share of the Speculative slots", {"fraction": REQUIRED}, _shed),
        Verb("repair", "bring a Failed machine back", {"id": REQUIRED, "to": "Idle"}, _repair),
        Verb("lie", "tell a lie from now on", {"name": REQUIRED, "share": None}, _lie),
        Verb("honest", "tell the truth again, about one thing or all", {"name": ""}, _honest),
        Verb(
            "pause-rpc", "let calls wait for so long from now", {"rpc": ANY, "seconds": REQUIRED}, _pause_rpc
        ),
        Verb(
            "refuse",
            "refuse calls before anything happens",
            {**_CALL_FAULT, "code": "INTERNAL", "message": "injected refusal"},
            _refuse,
        ),
        Verb("lose-answer", "do what calls ask for, never answer", _CALL_FAULT, _lose_answer),
        Verb(
            "reset-during",
            "do it, and break every connection instead of answering",
            _CALL_FAULT,
            _reset_during,
        ),
        Verb(
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
            _call,
        ),
        Verb(
            "restart",
            "end like a killed process, start again on the state or on nothing",
            {"forget": False},
            _restart,
        ),
        Verb("reset", "begin anew: no state, no faults but those of the flags", {}, _reset),
    )
}
