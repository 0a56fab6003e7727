"""What the leader keeps of reports.

Rules: `coordinator#soft-state`, `coordinator#provider-conflict`, `coordinator#shortfalls-replaced`,
`coordinator#report-order`, `coordinator#listings`, `coordinator#removed-shard-purged`, `coordinator#empty-shortfalls`,
`coordinator#two-shards-one-provider`.
"""

from dataclasses import replace

from bigfleet.coordinator.core.soft_state import ClockReading, ReportReceipt, SoftState
from bigfleet.model.shard_report import OwnershipView, ShardReport, ShardSummary, Shortfall

SHORT = Shortfall(priority=5, age_cycles=2)


def at(seconds: float) -> ClockReading:
    return ClockReading(seconds, int(seconds * 1e9) + 1_000)


def report(shard: str = "s", epoch: int = 1, cycle: int = 1, **more: object) -> ShardReport:
    whole = ShardReport(shard, shard_epoch=epoch, cycle=cycle, summary=ShardSummary())
    return replace(whole, **more)  # type: ignore[arg-type]


def summary(provider: str = "", key: str = "") -> ShardSummary:
    return ShardSummary(provider_address=provider, partition_key=key)


def test_an_empty_list_of_shortfalls_clears_the_old_ones() -> None:
    state = SoftState()
    state.record(report(cycle=1, shortfalls=(SHORT,), summary=summary("p")), at(0))
    state.record(report(cycle=2, summary=None), at(10))
    ((_, kept),) = state.reported()
    assert (kept.shortfalls, kept.summary) == (
        (),
        summary("p"),
    )  # a report without a summary keeps the old one


def test_the_same_report_twice_changes_nothing_but_times() -> None:
    state = SoftState()
    same = report(cycle=3, shortfalls=(SHORT,), summary=summary("p"))
    state.record(same, at(0))
    assert state.record(same, at(10)) == ReportReceipt(accepted=True)
    ((_, kept),) = state.reported()
    assert (kept.cycle, kept.shortfalls, kept.reported, kept.heartbeat) == (3, (SHORT,), at(10), at(10))


def test_an_older_report_is_a_heartbeat_and_nothing_more() -> None:
    state = SoftState()
    state.record(report(epoch=2, cycle=7, shortfalls=(SHORT,)), at(0))
    assert state.record(report(epoch=2, cycle=6), at(5)) == ReportReceipt(accepted=False)
    assert state.record(report(epoch=1, cycle=99), at(6)) == ReportReceipt(accepted=False, lower_epoch=True)
    ((_, kept),) = state.reported()
    assert (kept.cycle, kept.shortfalls, kept.reported) == (7, (SHORT,), at(0))
    assert state.heartbeat_ns("s") == at(6).wall_ns


def test_a_shard_that_lost_its_epoch_is_believed_after_three_silent_intervals() -> None:
    state = SoftState()
    state.record(report(epoch=9, cycle=400), at(0))
    assert not state.record(report(epoch=1, cycle=1), at(30)).accepted
    heard = state.record(report(epoch=1, cycle=2), at(30.1))
    assert (heard.accepted, heard.restarted) == (True, True)


def test_a_new_process_of_a_shard_is_noticed_and_its_old_view_dropped() -> None:
    state = SoftState()
    view = OwnershipView(settled=True)
    state.record(report(epoch=1, cycle=400, ownership=view), at(0))
    assert not state.record(report(epoch=1, cycle=401), at(1)).restarted
    assert state.record(report(epoch=2, cycle=1), at(2)).restarted
    ((_, kept),) = state.reported()
    assert kept.view is None


def test_more_than_a_hundred_shortfalls_are_cut_and_counted() -> None:
    state = SoftState()
    assert state.record(report(shortfalls=(SHORT,) * 130), at(0)).truncated == 30
    ((_, kept),) = state.reported()
    assert len(kept.shortfalls) == 100


def test_reports_are_listed_by_id_and_by_filter() -> None:
    state = SoftState()
    for shard in ("b", "a", "c"):
        state.record(report(shard), at(0))
    assert [shard for shard, _ in state.reported()] == ["a", "b", "c"]
    assert [shard for shard, _ in state.reported("b")] == ["b"]
    assert state.reported("nobody") == []
    state.record(report("bare", summary=None), at(0))
    assert state.reported("bare") == []  # neither a summary nor a shortfall
    assert state.shard_ids() == ["a", "b", "bare", "c"]
    state.forget("b")
    assert (state.reported("b"), state.heartbeat_ns("b"), state.of("b")) == ([], 0, None)


def test_two_live_shards_on_one_provider_conflict_unless_both_share_it_by_one_key() -> None:
    def conflicts(*summaries: ShardSummary, now: float = 0) -> dict[str, tuple[str, ...]]:
        state = SoftState()
        for number, given in enumerate(summaries):
            state.record(report(f"s-{number}", summary=given), at(0))
        return state.conflicts(now)

    assert conflicts(summary("p"), summary("p")) == {"p": ("s-0", "s-1")}
    assert conflicts(summary("p"), summary("p", "zone")) == {"p": ("s-0", "s-1")}
    assert conflicts(summary("p", "zone"), summary("p", "rack")) == {"p": ("s-0", "s-1")}
    assert conflicts(summary("p", "zone"), summary("p", "zone")) == {}
    assert conflicts(summary("p"), summary("q")) == {}
    assert conflicts(summary(), summary()) == {}  # each has its own in-process fake
    assert conflicts(summary("p"), summary("p"), now=31) == {}  # neither is live any more


def test_a_removed_shard_counts_as_sharing_when_it_said_so_or_is_unheard_while_others_do() -> None:
    state = SoftState()
    assert not state.is_partitioned("unheard")
    state.record(report("alone", summary=summary("p")), at(0))
    assert not state.is_partitioned("alone")
    state.record(report("sharing", summary=summary("q", "zone")), at(0))
    assert state.is_partitioned("sharing")
    assert state.is_partitioned("unheard")
    assert not state.is_partitioned("alone")
