"""Parts that several pages show of supply: machines of needs by how far they are, shard and provider, offerings out of stock.

Must never: call a need covered by machines that the provider has not accepted.
Rules: `dashboard#need-parts`, `dashboard#trouble-in-one-look`.
"""

from collections.abc import Mapping
from typing import Any, Final

from bigfleet.dashboard.charts import ChartPart, bar, small_bar
from bigfleet.dashboard.core.observed import ObservedCoolOff, ObservedCoverage, ObservedShard, ShardPlace
from bigfleet.dashboard.core.wording import age, ago, count, plural
from bigfleet.dashboard.html import Html, el, join
from bigfleet.dashboard.pages.tables import TableColumn, TableRow, table
from bigfleet.explain.amounts import readable

HELD_OFF: Final = {
    "provider-unreachable": "the provider is unreachable",
    "blob-back-off": "the operator made no bootstrap blob",
    "no-session": "the operator has no session",
    "machine-back-off": "the last attempt failed",
    "ownership-unsettled": "the shard does not know yet which machines are its own",
    "not-accepted": "the provider has not accepted them",
}


def parts_of(coverage: ObservedCoverage) -> list[ChartPart]:
    """Return the parts of a bar, in the order in which a machine goes through them backwards."""
    return [
        ChartPart("running", coverage.running),
        ChartPart("joining", coverage.joining),
        ChartPart("on order", coverage.on_order),
        ChartPart("wanted", coverage.wanted),
    ]


def coverage_bar(coverage: ObservedCoverage | None) -> Html | None:
    """Return the machines of needs as a bar with numbers, and what is missing; nothing when that is not known."""
    if coverage is None:
        return None
    missing = readable(coverage.missing.texts())
    return join(
        bar("Machines of needs", parts_of(coverage), end=_missing_end(coverage)),
        el("p", f"■ missing {missing}", class_="bad") if missing else None,
    )


def cluster_bar(coverage: ObservedCoverage) -> Html:
    """Return the machines of a cluster's needs as a bar; a red end of fixed width says that something is missing.

    What is missing is an amount, so it has no number of machines; without the end, a need for which there is no machine at
    all would be a bar in full green.
    """
    parts, end = parts_of(coverage), _missing_end(coverage)
    if end is None:
        return small_bar(parts)
    return small_bar([*parts, end], words=f"{coverage.running} running, and more is missing")


def _missing_end(coverage: ObservedCoverage) -> ChartPart | None:
    if coverage.missing.is_zero or coverage.wanted:
        return None
    whole = coverage.running + coverage.joining + coverage.on_order
    return ChartPart("missing", max(whole * 0.15, 1))


def coverage_cells(coverage: ObservedCoverage | None) -> tuple[Html | str, ...]:
    """Return cells for bar, running, joining, on order, wanted and missing."""
    if coverage is None:
        return ("unknown",) * 6
    missing = readable(coverage.missing.texts())
    return (
        small_bar(parts_of(coverage)),
        count(coverage.running),
        count(coverage.joining),
        count(coverage.on_order),
        wanted(coverage.wanted),
        el("span", f"■ {missing}", class_="bad") if missing else "—",
    )


COVERAGE_COLUMNS: Final = (
    TableColumn("coverage"),
    TableColumn("running", numeric=True),
    TableColumn("joining", numeric=True),
    TableColumn("on order", numeric=True),
    TableColumn("wanted", numeric=True),
    TableColumn("missing"),
)


def wanted(number: int) -> Html | str:
    """Return a number of wanted machines, marked when there are any."""
    return el("span", count(number), class_="bad") if number else count(number)


def held_off_text(row: Mapping[str, Any]) -> str:
    """Return why the wanted machines of a need are not obtained, and for how long; empty when nothing holds them off."""
    if not row["heldOff"]:
        return ""
    why = HELD_OFF.get(row["heldOff"], row["heldOff"].replace("-", " "))
    return f"{why}, for {age(row['waitingSeconds'])}" if row["waitingSeconds"] else why


def shard_state(place: ShardPlace) -> Html:
    """Return the state of a shard, in a few words with a mark."""
    seen = place.seen
    if place.error:
        return el("span", f"■ silent: {place.error}", class_="bad")
    if seen is None:
        return el("span", "unknown", class_="dim")
    if seen.self_paused:
        return el("span", "■ fenced, has stopped itself", class_="bad")
    if seen.actuation_paused:
        return el("span", "■ paused", class_="bad")
    if seen.dry_run:
        return el("span", "▲ dry run", class_="warn")
    if not seen.ready:
        return el("span", "▲ not ready", class_="warn")
    if seen.provider is not None and not seen.provider.reachable:
        return el("span", "■ provider unreachable", class_="bad")
    return el("span", "● ready", class_="good")


def provider_state(seen: ObservedShard) -> Html | str:
    """Return whether a shard reaches its provider, in a few words with a mark."""
    provider = seen.provider
    if provider is None:
        return "unknown: the shard does not report it"
    if not provider.reachable:
        held = (
            f"; {plural(provider.held_off_actions, 'action')} held off" if provider.held_off_actions else ""
        )
        probe = f"; tried again in {age(provider.next_probe_in_s)}" if provider.next_probe_in_s else ""
        words = f"■ unreachable for {age(provider.unreachable_for_s)}{held}{probe}"
        return el("span", words, class_="bad")
    if provider.doubted_for_s is not None:
        lacking = plural(provider.doubted_missing, "machine")
        words = f"■ listing doubted for {age(provider.doubted_for_s)}: it lacks {lacking}"
        return el("span", words, class_="bad")
    return el("span", "● reachable", class_="good")


def listing_age(seen: ObservedShard, now: float) -> str:
    """Return when the provider was last listed, by the shard's own clock where it reports a duration."""
    if seen.provider is not None:
        return "never" if seen.provider.listing_age_s is None else ago(seen.provider.listing_age_s)
    return ago(now - seen.last_reconcile) if seen.last_reconcile else "never"


def cool_off_table(seen: ObservedShard) -> Html | None:
    """Return the offerings that a shard does not order for now; nothing when there is none."""
    if not seen.cool_offs:
        return None
    columns = (
        TableColumn("offering"),
        TableColumn("tried again"),
        TableColumn("failures", numeric=True),
        TableColumn("slots left out", numeric=True),
        TableColumn("the provider said"),
    )
    caption = el("span", f"■ {plural(len(seen.cool_offs), 'offering')} out of stock", class_="bad")
    return table(caption, columns, (_cool_off(row) for row in seen.cool_offs))


def _cool_off(row: ObservedCoolOff) -> TableRow:
    again = f"in {age(row.next_attempt_in_s)}" if row.next_attempt_in_s > 0 else "now"
    return TableRow(
        (row.offering, again, count(row.failures), count(row.machines), row.error or "—"),
        key=f"cool-off|{row.offering}",
    )
