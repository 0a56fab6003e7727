"""Every refusal of a snapshot document names the path, what was found and what is allowed.

Rules: `engine#snapshot-form`, `engine#snapshot-strict`.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest

from bigfleet.document.errors import DocumentError
from bigfleet.document.snapshot import read_situation
from bigfleet.model.errors import InvalidFieldError

Change = Callable[[dict[str, Any]], object]


def document() -> dict[str, Any]:
    return {
        "version": 1,
        "now": 100,
        "reported_clusters": ["a"],
        "idle_hold_seconds": {"on_demand": 600, "spot": 60},
        "machines": [
            {
                "id": "m-0",
                "state": "Idle",
                "host": {"provider": "p", "ref": "h-0"},
                "resources": {"cpu": "4"},
            },
            {"id": "m-1", "state": "Configured", "host": {"provider": "p", "ref": "h-1"}, "cluster": "a"},
        ],
        "needs": [
            {
                "cluster": "a",
                "requirements": [{"key": "rack", "operator": "Same"}],
                "topology_spread": [
                    {"topology_key": "zone", "max_skew": 1, "when_unsatisfiable": "DoNotSchedule"}
                ],
                "total": {"cpu": "8"},
            }
        ],
        "parked": [{"cluster": "a", "group": "", "fingerprint": "f"}],
    }


def reach(whole: dict[str, Any], path: str) -> tuple[Any, str | int]:
    """The object or list that holds the end of a path such as `machines.0.host`, and that end."""
    owner: Any = whole
    *way, last = (int(step) if step.isdigit() else step for step in path.split("."))
    for step in way:
        owner = owner[step]
    return owner, last


def put(path: str, value: object) -> Change:
    def change(whole: dict[str, Any]) -> None:
        owner, last = reach(whole, path)
        owner[last] = value

    return change


def drop(path: str) -> Change:
    def change(whole: dict[str, Any]) -> None:
        owner, last = reach(whole, path)
        del owner[last]

    return change


def refusal(data: bytes | str) -> DocumentError:
    with pytest.raises(DocumentError) as caught:
        read_situation(data)
    return caught.value


NOT_NEGATIVE = "a finite number that is not negative"
INT32 = "an integer from -2147483648 to 2147483647"
INT64 = "an integer from -9223372036854775808 to 9223372036854775807"
BUCKET = "an integer from 0 to 27"
DOLLARS = 'dollars, a finite number that is not negative, or "pinned"'
QUANTITY = "a Kubernetes quantity such as 96, 500m, 0.5, 768Gi or 1e3"
OPERATORS = "one of In, NotIn, Exists, DoesNotExist, Same, Unspecified"
STATES = "one of Speculative, Creating, Idle, Configuring, Configured, Draining, Deleting, Failed"
TYPES = "one of Unspecified, BareMetal, Reserved, OnDemand, Spot"
SECONDS = "seconds, a finite number that is not negative"
NOT_EMPTY = "a text that is not empty"
LIMITS = "an integer from 0 to 2147483647"
WITH_UNIT = "0, or a unit beside it: it counts units"
WHENS = "one of DoNotSchedule, ScheduleAnyway, Unspecified"
M0, M1 = ' (machine "m-0")', ' (machine "m-1")'

ROWS: list[tuple[Change, str, str, str]] = [
    # The document itself.
    (drop("version"), "version", "nothing", "1"),
    (put("version", 2), "version", "2", "1"),
    (put("version", 1.0), "version", "1.0", "1"),
    (put("version", True), "version", "true", "1"),
    (put("version", "1"), "version", '"1"', "1"),
    (drop("now"), "now", "nothing", "a finite number"),
    (put("now", "100"), "now", '"100"', "a finite number"),
    (put("now", True), "now", "true", "a finite number"),
    (put("now", None), "now", "null", "a finite number"),
    (put("now", 10**400), "now", "1" + "0" * 79 + "…", "a finite number"),
    (put("reported_clusters", "a"), "reported_clusters", '"a"', "a list of texts or null"),
    (put("reported_clusters", ["a", 1]), "reported_clusters[1]", "1", "text"),
    (put("reported_clusters", [None]), "reported_clusters[0]", "null", "text"),
    (put("idle_hold_seconds", None), "idle_hold_seconds", "null", "an object"),
    (put("idle_hold_seconds", 600), "idle_hold_seconds", "600", "an object"),
    (put("idle_hold_seconds.spot", -1), "idle_hold_seconds.spot", "-1", SECONDS),
    (put("idle_hold_seconds.on_demand", "600"), "idle_hold_seconds.on_demand", '"600"', SECONDS),
    (
        put("idle_hold_seconds.on-demand", 1),
        "idle_hold_seconds.on-demand",
        "an unknown field",
        "one of on_demand, spot, or a key that begins with x-",
    ),
    (drop("machines"), "machines", "nothing", "a list"),
    (put("machines", None), "machines", "null", "a list"),
    (put("machines", {}), "machines", "an object", "a list"),
    (drop("needs"), "needs", "nothing", "a list"),
    (put("needs", "none"), "needs", '"none"', "a list"),
    (put("sort_needs", 1), "sort_needs", "1", "true or false"),
    (put("sort_needs", None), "sort_needs", "null", "true or false"),
    (put("parked", None), "parked", "null", "a list"),
    (put("parked.0", []), "parked[0]", "a list", "an object"),
    (drop("parked.0.cluster"), "parked[0].cluster", "nothing", "text"),
    (drop("parked.0.fingerprint"), "parked[0].fingerprint", "nothing", "text"),
    (put("parked.0.group", None), "parked[0].group", "null", "text"),
    # Machines: types.
    (put("machines.0", None), "machines[0]", "null", "an object"),
    (put("machines.1", "m-1"), "machines[1]", '"m-1"', "an object"),
    (drop("machines.0.id"), "machines[0].id", "nothing", NOT_EMPTY),
    (put("machines.0.id", ""), "machines[0].id", '""', NOT_EMPTY),
    (put("machines.0.id", 7), "machines[0].id", "7", "text"),
    (put("machines.0.id", "\ud800"), "machines[0].id", '"\\ud800"', "text without lone surrogates"),
    (put("machines.1.id", "m-0"), "machines[1].id", '"m-0"', "an id of its own, not that of machines[0]"),
    (drop("machines.0.state"), "machines[0].state", "nothing", STATES),
    (put("machines.0.state", "idle"), "machines[0].state", '"idle"', STATES),
    (put("machines.0.state", "Unspecified"), "machines[0].state", '"Unspecified"', STATES),
    (put("machines.0.state", 3), "machines[0].state", "3", STATES),
    (put("machines.0.state", []), "machines[0].state", "a list", STATES),
    (put("machines.0.host", "h"), "machines[0].host", '"h"', "an object or null"),
    (drop("machines.0.host.ref"), "machines[0].host.ref", "nothing", "text"),
    (put("machines.0.host.provider", 1), "machines[0].host.provider", "1", "text"),
    (
        put("machines.0.host.zone", "z"),
        "machines[0].host.zone",
        "an unknown field",
        "one of provider, ref, or a key that begins with x-",
    ),
    (put("machines.0.cluster", None), "machines[0].cluster", "null", "text"),
    (put("machines.0.instance_type", 5), "machines[0].instance_type", "5", "text"),
    (put("machines.0.zone", ["z"]), "machines[0].zone", "a list", "text"),
    (put("machines.0.capacity_type", "on_demand"), "machines[0].capacity_type", '"on_demand"', TYPES),
    (put("machines.0.resources", []), "machines[0].resources", "a list", "a map of texts"),
    (put("machines.0.resources.cpu", 4), "machines[0].resources[cpu]", "4", "text"),
    (put("machines.0.resources.cpu", ["4"]), "machines[0].resources[cpu]", "a list", "text"),
    (put("machines.0.resources.cpu", "four"), "machines[0].resources[cpu]", '"four"', QUANTITY + M0),
    (put("machines.0.resources.cpu", ""), "machines[0].resources[cpu]", '""', QUANTITY + M0),
    (put("machines.0.resources.cpu", " 4"), "machines[0].resources[cpu]", '" 4"', QUANTITY + M0),
    (
        put("machines.0.resources.cpu", "-4"),
        "machines[0].resources[cpu]",
        '"-4"',
        "a quantity that is not negative" + M0,
    ),
    (
        put("machines.0.allocatable", {"cpu": "1e99"}),
        "machines[0].allocatable[cpu]",
        '"1e99"',
        "an exponent from -40 to 40" + M0,
    ),
    (
        put("machines.0.allocatable", {"a\nb": "x"}),
        "machines[0].allocatable[a\\nb]",
        '"x"',
        QUANTITY + M0,
    ),
    (put("machines.0.labels", None), "machines[0].labels", "null", "a map of texts"),
    (put("machines.0.labels", {"rack": None}), "machines[0].labels[rack]", "null", "text"),
    (put("machines.0.labels", {"a\nb": 1}), 'machines[0].labels["a\\nb"]', "1", "text"),
    (
        put("machines.0.labels", {"k": "\udfff"}),
        "machines[0].labels[k]",
        "a lone surrogate",
        "text without lone surrogates",
    ),
    (put("machines.0.price_per_hour", "1"), "machines[0].price_per_hour", '"1"', NOT_NEGATIVE),
    (put("machines.0.price_per_hour", True), "machines[0].price_per_hour", "true", NOT_NEGATIVE),
    (put("machines.0.price_per_hour", -0.5), "machines[0].price_per_hour", "-0.5", NOT_NEGATIVE),
    (
        put("machines.0.price_per_hour", float("inf")),
        "machines[0].price_per_hour",
        "Infinity",
        NOT_NEGATIVE,
    ),
    (put("machines.0.price_per_hour", float("nan")), "machines[0].price_per_hour", "NaN", NOT_NEGATIVE),
    (
        put("machines.0.interruption_probability", 1.5),
        "machines[0].interruption_probability",
        "1.5",
        "a number from 0 to 1" + M0,
    ),
    (
        put("machines.0.interruption_probability", None),
        "machines[0].interruption_probability",
        "null",
        "a number from 0 to 1",
    ),
    (put("machines.0.assigned_priority", 2**31), "machines[0].assigned_priority", "2147483648", INT32),
    (put("machines.0.assigned_priority", 1.0), "machines[0].assigned_priority", "1.0", INT32),
    (put("machines.0.assigned_priority", False), "machines[0].assigned_priority", "false", INT32),
    (
        put("machines.0.assigned_interruption_penalty", "Pinned"),
        "machines[0].assigned_interruption_penalty",
        '"Pinned"',
        DOLLARS,
    ),
    (
        put("machines.0.assigned_reclamation_penalty", -1),
        "machines[0].assigned_reclamation_penalty",
        "-1",
        DOLLARS,
    ),
    (
        put("machines.0.assigned_reclamation_penalty", float("-inf")),
        "machines[0].assigned_reclamation_penalty",
        "-Infinity",
        DOLLARS,
    ),
    (put("machines.0.assigned_fingerprint", 1), "machines[0].assigned_fingerprint", "1", "text"),
    (put("machines.0.assigned_group", None), "machines[0].assigned_group", "null", "text"),
    (put("machines.0.assigned_cluster", {}), "machines[0].assigned_cluster", "an object", "text"),
    (put("machines.0.draining_for", "a"), "machines[0].draining_for", '"a"', "an object or null"),
    (
        put("machines.0.draining_for", {"fingerprint": "f"}),
        "machines[0].draining_for.cluster",
        "nothing",
        NOT_EMPTY,
    ),
    (
        put("machines.0.draining_for", {"cluster": "a"}),
        "machines[0].draining_for.fingerprint",
        "nothing",
        "text",
    ),
    (
        put("machines.0.drain_grace_remaining_seconds", -1),
        "machines[0].drain_grace_remaining_seconds",
        "-1",
        NOT_NEGATIVE,
    ),
    (put("machines.0.idle_since", "now"), "machines[0].idle_since", '"now"', "a finite number or null"),
    (put("machines.0.last_error", None), "machines[0].last_error", "null", "text"),
    # Machines: the invariants of their states.
    (drop("machines.0.host"), "machines[0].host", "nothing", "a host while Idle" + M0),
    (put("machines.0.host", None), "machines[0].host", "null", "a host while Idle" + M0),
    (
        put("machines.0.host", {"provider": "", "ref": ""}),
        "machines[0].host",
        "an object",
        "a host while Idle" + M0,
    ),
    (
        put("machines.0.state", "Speculative"),
        "machines[0].host",
        "an object",
        "none while Speculative" + M0,
    ),
    (put("machines.0.state", "Creating"), "machines[0].host", "an object", "none while Creating" + M0),
    (
        put("machines.0.state", "Configuring"),
        "machines[0].cluster",
        "nothing",
        "a cluster while Configuring" + M0,
    ),
    (drop("machines.1.cluster"), "machines[1].cluster", "nothing", "a cluster while Configured" + M1),
    (
        put("machines.0", {"id": "m-0", "state": "Speculative", "cluster": "a"}),
        "machines[0].cluster",
        '"a"',
        "none while Speculative" + M0,
    ),
    (
        put("machines.1.state", "Failed"),
        "machines[1].last_error",
        "nothing",
        "a text that is not empty while Failed" + M1,
    ),
    (
        put("machines.0.host.ref", "h" * 70_000),
        "machines[0].host.ref",
        '"' + "h" * 40 + '…"',
        "a text of at most 65534 bytes" + M0,
    ),
    # Needs.
    (put("needs.0", 1), "needs[0]", "1", "an object"),
    (put("needs.0.max_units_per_machine", -1), "needs[0].max_units_per_machine", "-1", LIMITS),
    (put("needs.0.max_units_per_machine", 2**31), "needs[0].max_units_per_machine", "2147483648", LIMITS),
    (put("needs.0.max_units_per_machine", True), "needs[0].max_units_per_machine", "true", LIMITS),
    (put("needs.0.max_units_per_machine", 1), "needs[0].max_units_per_machine", "1", WITH_UNIT),
    (put("needs.0.for_fragments", 1), "needs[0].for_fragments", "1", "true or false"),
    (drop("needs.0.cluster"), "needs[0].cluster", "nothing", NOT_EMPTY),
    (put("needs.0.cluster", ""), "needs[0].cluster", '""', NOT_EMPTY),
    (put("needs.0.requirements", {}), "needs[0].requirements", "an object", "a list"),
    (put("needs.0.requirements.0", "x"), "needs[0].requirements[0]", '"x"', "an object"),
    (drop("needs.0.requirements.0.key"), "needs[0].requirements[0].key", "nothing", "text"),
    (drop("needs.0.requirements.0.operator"), "needs[0].requirements[0].operator", "nothing", OPERATORS),
    (
        put("needs.0.requirements.0.operator", "Gt"),
        "needs[0].requirements[0].operator",
        '"Gt"',
        OPERATORS,
    ),
    (
        put("needs.0.requirements.0.values", "r1"),
        "needs[0].requirements[0].values",
        '"r1"',
        "a list",
    ),
    (
        put("needs.0.requirements.0.values", ["r1", 2]),
        "needs[0].requirements[0].values[1]",
        "2",
        "text",
    ),
    (
        drop("needs.0.topology_spread.0.max_skew"),
        "needs[0].topology_spread[0].max_skew",
        "nothing",
        INT32,
    ),
    (
        put("needs.0.topology_spread.0.max_skew", 2**40),
        "needs[0].topology_spread[0].max_skew",
        str(2**40),
        INT32,
    ),
    (
        put("needs.0.topology_spread.0.when_unsatisfiable", "Never"),
        "needs[0].topology_spread[0].when_unsatisfiable",
        '"Never"',
        WHENS,
    ),
    (
        put("needs.0.topology_spread.0.topology_key", None),
        "needs[0].topology_spread[0].topology_key",
        "null",
        "text",
    ),
    (put("needs.0.priority", -(2**31) - 1), "needs[0].priority", "-2147483649", INT32),
    (put("needs.0.priority", "high"), "needs[0].priority", '"high"', INT32),
    (
        put("needs.0.interruption_penalty_bucket", 28),
        "needs[0].interruption_penalty_bucket",
        "28",
        BUCKET,
    ),
    (
        put("needs.0.reclamation_penalty_bucket", -1),
        "needs[0].reclamation_penalty_bucket",
        "-1",
        BUCKET,
    ),
    (
        put("needs.0.reclamation_penalty_bucket", True),
        "needs[0].reclamation_penalty_bucket",
        "true",
        BUCKET,
    ),
    (put("needs.0.total.cpu", 8), "needs[0].total[cpu]", "8", "text"),
    (put("needs.0.total.cpu", "8 "), "needs[0].total[cpu]", '"8 "', QUANTITY),
    (put("needs.0.total.cpu", "-1"), "needs[0].total[cpu]", '"-1"', "a quantity that is not negative"),
    (put("needs.0.unit", []), "needs[0].unit", "a list", "a map of texts"),
    (put("needs.0.unit", {"cpu": "1x"}), "needs[0].unit[cpu]", '"1x"', QUANTITY),
    (put("needs.0.group", 1), "needs[0].group", "1", "text"),
    (put("needs.0.arrival", 2**63), "needs[0].arrival", "9223372036854775808", INT64),
    (put("needs.0.arrival", 1.5), "needs[0].arrival", "1.5", INT64),
    # What may be kept must be fit to be written again.
    (put("x-note", float("nan")), "x-note", "NaN", "JSON that can be written again"),
    (
        put("machines.0.x-note", ["\ud800"]),
        "machines[0].x-note",
        '"\\ud800"',
        "JSON that can be written again",
    ),
    (put("x-deep", json.loads("[" * 40 + "]" * 40)), "x-deep", "deeper nesting", "at most 32 levels"),
]


@pytest.mark.parametrize(
    ("change", "path", "found", "allowed"), ROWS, ids=[f"{row[1]} {row[2][:12]}" for row in ROWS]
)
def test_a_flaw_is_refused_by_path(change: Change, path: str, found: str, allowed: str) -> None:
    whole = document()
    change(whole)
    error = refusal(json.dumps(whole))
    assert (error.field, error.found, error.allowed) == (path, found, allowed)
    assert str(error) == f"{path}: found {found}, allowed is {allowed}"
    assert isinstance(error, InvalidFieldError)


def test_the_document_that_the_rows_spoil_is_sound() -> None:
    assert len(read_situation(json.dumps(document())).situation.machines) == 2


@pytest.mark.parametrize("path", ["", "machines.0", "needs.0", "needs.0.requirements.0", "parked.0"])
@pytest.mark.parametrize(
    ("name", "step"), [("Version", "Version"), ("x_note", "x_note"), ("a b", '["a b"]'), ("", '[""]')]
)
def test_an_unknown_field_is_refused_wherever_it_stands(path: str, name: str, step: str) -> None:
    whole = document()
    owner, _ = reach(whole, f"{path}.end" if path else "end")
    owner[name] = 1
    error = refusal(json.dumps(whole))
    prefix = path.replace(".0", "[0]")
    assert error.field == f"{prefix}{'.' if prefix and not step.startswith('[') else ''}{step}"
    assert error.found == "an unknown field"
    assert error.allowed.endswith(", or a key that begins with x-")


def test_a_refusal_stays_short_and_on_one_line_whatever_was_sent() -> None:
    name = "n\n" * 100_000
    spoilt: list[Change] = [
        put(name.replace(".", ""), 1),
        put("machines.0.id", name * 2),
        put("machines.0.labels", {name: 1}),
        put("machines.0.resources", {name: "x"}),
        put("needs.0.total", {name: "x"}),
        put("machines.0.resources", {"cpu": name}),
        put("version", name),
        put("version", 10**4000),
    ]
    for change in spoilt:
        whole = document()
        change(whole)
        text = str(refusal(json.dumps(whole)))
        assert len(text) < 700
        assert text.isprintable(), text
