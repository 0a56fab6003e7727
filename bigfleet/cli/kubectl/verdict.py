"""The shard's verdict on the need that a request belongs to, as text.

Why: only the shard knows whether a need is covered, and what is missing.
Must never: show a need with other requirements or another priority than the request.
Rules: `operator#plugin-why`, `wire#coordinator`; ADR-0061.
"""

from collections.abc import Iterable
from typing import Any, Final

from bigfleet.aio.net import Code, RpcError
from bigfleet.aio.service import ServiceSpec
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.errors import CommandError
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.framework.settings import TlsFlags
from bigfleet.explain.durations import duration_text
from bigfleet.explain.hold_offs import coverage_text, hold_off_words
from bigfleet.model.errors import InvalidFieldError
from bigfleet.model.quantity import parse_quantity
from bigfleet.model.quantity_text import canonical_text
from bigfleet.transport.grpc_net import GrpcNet
from bigfleet.v1alpha1 import capacity_pb2, shardread_pb2
from bigfleet.wire.need_views import coverage_from_proto

Document = dict[str, Any]
READ: Final = ServiceSpec(shardread_pb2.DESCRIPTOR.services_by_name["ShardRead"])
INSPECT: Final = READ.server_stream(
    "InspectNeeds", shardread_pb2.InspectNeedsRequest, shardread_pb2.InspectNeedsResponse
)
DEADLINE_S: Final = 30.0
_WORDS: Final = {"IN": "In", "NOT_IN": "NotIn", "EXISTS": "Exists", "DOES_NOT_EXIST": "DoesNotExist"}
_BYTES: Final = ("memory", "ephemeral-storage", "hugepages-")
_CODES: Final = {
    Code.PERMISSION_DENIED: ExitCode.PERMISSION,
    Code.UNAUTHENTICATED: ExitCode.PERMISSION,
    Code.UNAVAILABLE: ExitCode.UNAVAILABLE,
    Code.DEADLINE_EXCEEDED: ExitCode.UNAVAILABLE,
}


async def verdicts(
    tls: TlsFlags, shard: str, cluster: str, request: Document, console: Console
) -> tuple[str, ...]:
    """Return the shard's verdicts on the needs that match a request."""
    channel = GrpcNet(tls.tls_store(console.print_error, console.print_warning)).dial(shard)
    asked = shardread_pb2.InspectNeedsRequest(cluster_id=cluster)
    try:
        frames = [frame async for frame in channel.server_stream(INSPECT, asked, timeout_s=DEADLINE_S)]
    except RpcError as error:
        raise CommandError(f"--shard {shard}: {error}", _CODES.get(error.code, ExitCode.FAILURE)) from error
    finally:
        await channel.close()
    return verdict_lines(frames, request)


def verdict_lines(frames: Iterable[shardread_pb2.InspectNeedsResponse], request: Document) -> tuple[str, ...]:
    """Return one line per need that matches the request, or one line that says there is none."""
    lines: list[str] = []
    cycle = 0
    for frame in frames:
        if frame.HasField("header"):
            cycle = frame.header.cycle
        elif _is_like(frame.need.need, request):
            lines.append(f"cycle {cycle}: {_verdict(frame.need)}")
    return tuple(lines) or (f"cycle {cycle}: the shard knows no such need",)


def _is_like(need: capacity_pb2.CapacityNeed, request: Document) -> bool:
    spec = request["spec"]
    wanted = sorted(
        (item["key"], item["operator"], tuple(sorted(item.get("values") or ())))
        for item in spec.get("requirements") or ()
    )
    found = sorted(
        (item.key, _word(item.operator), tuple(sorted(item.values)))
        for item in need.requirements
        if _word(item.operator)
    )
    return need.priority == spec.get("priority", 0) and found == wanted


def _word(operator: int) -> str:
    """Return the operator as requests write it; empty for Same, which requests do not have."""
    name = capacity_pb2.NodeSelectorRequirement.Operator.Name(operator)  # type: ignore[arg-type]
    return next((word for suffix, word in _WORDS.items() if name.removeprefix("OPERATOR_") == suffix), "")


def _verdict(view: shardread_pb2.NeedView) -> str:
    known = view.HasField("coverage")  # shards of the original and older ones do not say how far machines are
    split = coverage_from_proto(view.coverage)
    if split.covered if known else view.satisfied:
        return (
            f"covered: {coverage_text(split)}"
            if known
            else f"covered by {view.claimed_machine_count} machines"
        )
    texts = view.coverage.missing.resources if known else view.residual_deficit.resources
    missing = (
        ", ".join(f"{name} {_amount(name, amount)}" for name, amount in sorted(texts.items())) or "something"
    )
    if known:
        words = [f"missing {missing}: {coverage_text(split)}"]
        if split.held_off:
            waiting = f", waiting {duration_text(split.waiting_s)}" if split.waiting_s else ""
            words.append(f"the wanted ones do not come: {hold_off_words(split.held_off)}{waiting}")
    else:
        words = [f"short of {missing} with {view.claimed_machine_count} machines"]
    if view.satisfied:
        return "; ".join(words)
    reason = shardread_pb2.UnmetReason.Name(view.unmet_reason).removeprefix("UNMET_REASON_")
    if view.unmet_reason:
        words.append(reason.lower().replace("_", " "))
    supply = view.matching_supply
    words.append(
        f"matching machines: {supply.idle} idle, {supply.speculative} speculative, {supply.configured} in use"
        + (" or more" if supply.capped else "")
    )
    if view.age_cycles_unmet:
        words.append(f"short for {view.age_cycles_unmet} cycles")
    if view.same_domain:
        words.append(f"gathers in {view.same_domain}")
    if view.acquisition_parked:
        words.append("parked, since no domain can hold the whole gang")
    return "; ".join(words)


def _amount(name: str, text: str) -> str:
    """Return an amount with bytes in binary units, other resources unchanged."""
    if not name.startswith(_BYTES):
        return text
    try:
        return canonical_text(parse_quantity(text), binary=True)
    except InvalidFieldError:
        return text
