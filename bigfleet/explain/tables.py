"""The tables of an explanation, made of its document: what `bigfleet explain` prints and the dashboard shows.

Must never: know anything that the document does not say, so that a page can show the same.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from bigfleet.document.listing import Column, Listing
from bigfleet.explain.amounts import readable
from bigfleet.explain.sentences import step_words

Content = Mapping[str, Any]  # Any: a document of our own making, as JSON has it
_IDS_SHOWN = 3
_NUMBERS_SHOWN = 3


def need_title(content: Content) -> str:
    """Which need it is, in one line."""
    return f"need {_numbers(content)} of {_who(content)}, priority {content['priority']}"


def machine_title(content: Content) -> str:
    """Which machine it is, in one line."""
    named = [content["instance_type"], content["zone"], content["capacity_type"]]
    size = readable(content["capacity"]) or "nothing"
    if pods := content.get("pods_by_default"):  # a shard of an older version does not send it
        size += f" pods={pods} (default)"
    described = ", ".join(part for part in (*named, f"${content['price_per_hour']:g}/h", size) if part)
    return f"machine {content['machine']}: {described}"


def need_listings(content: Content, *, quick: bool) -> Iterator[Listing]:
    """The tables about a need; those without a row are left out."""
    steps = [_step(row) for row in content["steps"] if row["fitting"] or row["taken"]]
    yield from _unless_empty("steps", _STEPS, steps)
    chosen = [_class(row) for row in content["chosen"]]
    if content["next_best"] is not None:
        chosen.append({**_class(content["next_best"]), "how": "next best"})
    yield from _unless_empty("chosen", _CLASSES, chosen)
    yield from _unless_empty("refused", _REFUSED, [_refused(row) for row in content["refused"]])
    yield from _unless_empty(
        "competitors", _COMPETITORS, [_competitor(row) for row in content["competitors"]]
    )
    weighed = any(row["machines"] is not None for row in content["domains"])
    columns = _DOMAINS if weighed else _DOMAINS[:4]
    yield from _unless_empty("domains", columns, [_domain(row) for row in content["domains"]])
    yield from _unless_empty("victims", _VICTIMS, list(_victims(content["preemption"])))
    if not quick:
        nothing: dict[str, object] = {"change": "nothing that was tried"}
        changes = [_change(row) for row in content["changes"]]
        yield from _unless_empty("changes", _CHANGES, changes or ([] if content["satisfied"] else [nothing]))


def machine_listings(content: Content) -> Iterator[Listing]:
    """The tables about a machine."""
    yield from _unless_empty("facts", _FACTS, list(_facts(content)))
    yield from _unless_empty("needs", _VIEWS, [_view(row) for row in content["needs"]])


def _unless_empty(name: str, columns: tuple[Column, ...], rows: list[dict[str, object]]) -> Iterator[Listing]:
    if rows:
        yield Listing(name, columns, rows)


def _numbers(row: Content) -> str:
    numbers = row["needs"]
    more = f",+{len(numbers) - _NUMBERS_SHOWN}" if len(numbers) > _NUMBERS_SHOWN else ""
    return ",".join(map(str, numbers[:_NUMBERS_SHOWN])) + more


def _who(row: Content) -> str:
    return f"{row['cluster']}/{row['group']}" if row["group"] else str(row["cluster"])


def _ids(ids: list[str], count: int) -> str:
    shown = ",".join(ids[:_IDS_SHOWN])
    return f"{shown},+{count - _IDS_SHOWN}" if count > _IDS_SHOWN else shown


def _dollars(amount: float | str) -> str:
    return amount if isinstance(amount, str) else f"{amount:g}"


def _step(row: Content) -> dict[str, object]:
    return {**row, "missing": readable(row["missing"]) or None}


def _class(row: Content) -> dict[str, object]:
    return {
        **row,
        "how": step_words(row["how"]),
        "instance_type": row["instance_type"] or None,
        "zone": row["zone"] or None,
        "effective": _dollars(row["effective_cost_per_hour"]),
        "ids": _ids(row["machines"], row["count"]),
    }


def _refused(row: Content) -> dict[str, object]:
    by = f"need {_numbers(row)}, {row['detail']}" if row["needs"] else row["detail"]
    return {**row, "detail": by or None, "ids": _ids(row["machines"], row["count"])}


def _competitor(row: Content) -> dict[str, object]:
    return {**row, "needs": _numbers(row), "who": _who(row)}


def _domain(row: Content) -> dict[str, object]:
    shares = {
        name: None if row[name] is None else f"{row[name] / 10:g} %"
        for name in (
            "coverage_per_mille",
            "creditable_per_mille",
            "own_per_mille",
            "overcommitment_per_mille",
        )
    }
    return {**row, **shares}


def _victims(preemption: Content | None) -> Iterator[dict[str, object]]:
    if preemption is None:
        return
    for machine_id in preemption["in_flight"]:
        yield {"machine": machine_id, "what": "drains for it already"}
    yield from _others(_left_out(preemption, "in_flight", "in_flight_count"), "draining for it already")
    for victim in preemption["victims"]:
        yield _victim(victim, "leaves for it")
    yield from _others(_left_out(preemption, "victims", "victim_count"), "leaving for it")
    if preemption["next_victim"] is not None:
        yield _victim(preemption["next_victim"], "would be next")
    for name, words in (
        ("protected", "claimed this cycle by a need that does not rank below"),
        ("not_lower", "serving work of at least its priority"),
        ("taken_by_others", "leaving for other needs"),
    ):
        yield from _others(preemption[name], words)


def _left_out(preemption: Content, listed: str, count: str) -> int:
    """How many are not listed; a shard of an older version lists all of them, and does not say how many they are."""
    shown = len(preemption[listed])
    return int(preemption.get(count, shown)) - shown


def _others(count: int, what: str) -> Iterator[dict[str, object]]:
    if count:
        yield {"machine": "1 other" if count == 1 else f"{count} others", "what": what}


def _victim(victim: Content, what: str) -> dict[str, object]:
    terms = " + ".join(
        _dollars(victim[name]) for name in ("interruption_penalty", "reclamation_penalty", "grace_cost")
    )
    return {**victim, "what": what, "cost": f"{terms} = {_dollars(victim['cost'])}"}


def _change(row: Content) -> dict[str, object]:
    hurts = ", ".join(f"need {_numbers(hurt)} of {hurt['cluster']} {hurt['change']}" for hurt in row["hurts"])
    cost = row["cost_difference_per_hour"]
    effect = f"{row['effect']} ({row['preempted']})" if row["preempted"] else row["effect"]
    return {
        "change": row["change"],
        "effect": effect,
        "cost": f"+{cost:g}" if cost > 0 else f"{cost:g}",
        "hurts": hurts or None,
        "edits": json.dumps(row["edits"], ensure_ascii=False),
    }


def _facts(content: Content) -> Iterator[dict[str, object]]:
    action, order, release = content["action"], content["keep_order"], content["release"]
    if action is not None:
        yield {"fact": "action", "value": f"{action['kind']} ({action['reason']})"}
    if content["victim"] is not None:
        yield {"fact": "cost of taking it away", "value": _victim(content["victim"], "")["cost"]}
    if content["next_victim"] is not None:
        yield {"fact": "next victim", "value": content["next_victim"]["machine"]}
    if order is not None:
        place = (
            f"{order['position']} of {order['machines']} in {content['cluster']}, {order['claimed']} wanted"
        )
        yield {"fact": "keep order", "value": place}
        if not order["reported"]:
            yield {"fact": "report gate", "value": f"{content['cluster']} has not reported"}
    if release is not None and not content["held_by"]:
        yield {"fact": "release", "value": _release(release)}
    if content["next_taker"] is not None:
        taker = content["next_taker"]
        yield {"fact": "next taker", "value": f"need {_numbers(taker)} of {_who(taker)}, if it wanted more"}


def _release(release: Content) -> str:
    if not release["hold_seconds"]:
        return "never, by its capacity type"
    if release["left_seconds"] is None:
        return "never, as nobody knows how long it is idle"
    return f"in {release['left_seconds']:g} s of {release['hold_seconds']:g} s"


def _view(row: Content) -> dict[str, object]:
    return {**row, "needs": _numbers(row), "who": _who(row), "detail": row["detail"] or None}


_STEPS = (
    Column("STEP", "step"),
    Column("FIT", "fitting"),
    Column("TAKEN", "taken"),
    Column("STILL MISSING", "missing"),
)
_CLASSES = (
    Column("COUNT", "count"),
    Column("CHOSEN", "how"),
    Column("TYPE", "instance_type"),
    Column("ZONE", "zone"),
    Column("CAPACITY", "capacity_type"),
    Column("STATE", "state"),
    Column("$/H", "price_per_hour"),
    Column("RISK", "interruption_probability", wide=True),
    Column("EFFECTIVE", "effective"),
    Column("MACHINES", "ids"),
)
_REFUSED = (
    Column("COUNT", "count"),
    Column("REFUSED", "reason"),
    Column("DETAIL", "detail"),
    Column("WHAT IT WOULD TAKE", "remedy"),
    Column("MACHINES", "ids", wide=True),
)
_COMPETITORS = (
    Column("COMPETITOR", "needs"),
    Column("CLUSTER", "who"),
    Column("PRIORITY", "priority"),
    Column("RANK", "relation"),
    Column("HOLDS", "machines"),
)
_DOMAINS = (
    Column("DOMAIN", "domain"),
    Column("CHOSEN", "chosen"),
    Column("FITS", "satisfiable"),
    Column("COVERAGE", "coverage_per_mille"),
    Column("MACHINES", "machines"),
    Column("HELD", "creditable_per_mille"),
    Column("OWN", "own_per_mille"),
    Column("SIZE", "overcommitment_per_mille"),
    Column("BEHIND BY", "decided_by"),
)
_VICTIMS = (
    Column("PREEMPTION", "machine"),
    Column("WHAT", "what"),
    Column("CLUSTER", "cluster"),
    Column("PRIORITY", "priority"),
    Column("COST", "cost"),
    Column("GRACE_SECONDS", "grace_seconds"),
)
_CHANGES = (
    Column("WHAT WOULD CHANGE IT", "change"),
    Column("EFFECT", "effect"),
    Column("$/H", "cost"),
    Column("HURTS", "hurts"),
    Column("EDITS", "edits", wide=True),
)
_FACTS = (Column("FACT", "fact"), Column("VALUE", "value"))
_VIEWS = (
    Column("NEED", "needs"),
    Column("CLUSTER", "who"),
    Column("PRIORITY", "priority"),
    Column("SATISFIED", "satisfied"),
    Column("THIS MACHINE", "standing"),
    Column("DETAIL", "detail"),
)
