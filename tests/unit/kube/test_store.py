"""The store never goes back, never revives, never shows half a list, and queues every change once for each consumer."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigfleet.kube.change_queue import StoreChange
from bigfleet.kube.resources import ObjectKey, version_of
from bigfleet.kube.store import Store
from bigfleet.kube.transport import Document
from bigfleet.model.errors import InvalidFieldError
from bigfleet.testing.clock import VirtualClock
from bigfleet.testing.loop import run_virtual


def item(name: str, version: int, color: str = "red") -> Document:
    return {
        "metadata": {"name": name, "resourceVersion": str(version)},
        "spec": {"color": color, "filler": "x" * 1000},
    }


def color_of(document: Document) -> str | None:
    color: str = document["spec"]["color"]
    return color if color != "hidden" else None


def new_store() -> Store[str]:
    return Store(color_of, clock=VirtualClock(), indexes={"initial": lambda color: [color[0]]})


def key(name: str) -> ObjectKey:
    return ObjectKey("", name)


async def listed(store: Store[str], version: int, *items: Document) -> None:
    store.begin_list()
    for document in items:
        store.stage(document)
    await store.finish_list(version)


def test_before_the_first_complete_list_the_store_is_not_synchronised() -> None:
    async def main() -> None:
        store = new_store()
        store.begin_list()
        store.stage(item("a", 1))
        assert not store.synced
        assert len(store) == 0
        assert store.age_s() is None
        waiting = asyncio.ensure_future(store.wait_synced())
        await asyncio.sleep(1)
        assert not waiting.done()
        await store.finish_list(5)
        await waiting
        assert store.snapshot() == {key("a"): "red"}

    run_virtual(main())


def test_only_the_projection_is_kept() -> None:
    async def main() -> None:
        store = new_store()
        await listed(store, 5, item("a", 1), item("b", 2, "hidden"))
        assert store.get(key("a")) == "red"
        assert key("b") not in store

    run_virtual(main())


def test_an_object_whose_projection_becomes_nothing_leaves_the_store() -> None:
    async def main() -> None:
        store = new_store()
        await listed(store, 5, item("a", 1))
        store.apply(item("a", 6, "hidden"))
        assert key("a") not in store
        assert store.by_index("initial", "r") == ()

    run_virtual(main())


def test_an_older_version_changes_nothing() -> None:
    async def main() -> None:
        store = new_store()
        await listed(store, 5, item("a", 4, "blue"))
        store.apply(item("a", 3, "red"))
        store.observe(item("a", 2, "green"))
        store.remove(item("a", 1))
        assert store.get(key("a")) == "blue"

    run_virtual(main())


def test_what_a_write_returned_is_seen_at_once() -> None:
    async def main() -> None:
        store = new_store()
        await listed(store, 5, item("a", 4, "blue"))
        store.observe(item("a", 9, "green"))
        store.observe(item("new", 10, "red"))
        assert (store.get(key("a")), store.get(key("new"))) == ("green", "red")
        store.apply(item("a", 7, "stale"))  # the watch comes to an older state of it
        assert store.get(key("a")) == "green"

    run_virtual(main())


def test_the_answer_to_a_write_does_not_revive_what_the_watch_saw_deleted() -> None:
    async def main() -> None:
        store = new_store()
        await listed(store, 5, item("a", 4))
        store.remove(item("a", 9))
        store.observe(item("a", 8))  # our patch was version 8, its answer was slow
        assert key("a") not in store

    run_virtual(main())


def test_a_deletion_from_before_the_object_came_back_is_ignored() -> None:
    async def main() -> None:
        store = new_store()
        await listed(store, 5, item("a", 4))
        store.observe(item("a", 9, "green"))  # deleted by another writer at 7, created again by us at 9
        store.remove(item("a", 7))
        assert store.get(key("a")) == "green"

    run_virtual(main())


def test_a_list_keeps_what_was_written_after_it_was_made() -> None:
    async def main() -> None:
        store = new_store()
        await listed(store, 5, item("a", 4, "blue"))
        store.begin_list()
        store.stage(item("a", 4, "blue"))
        store.observe(item("a", 12, "green"))
        store.observe(item("fresh", 13, "red"))
        await store.finish_list(10)
        assert store.snapshot() == {key("a"): "green", key("fresh"): "red"}

    run_virtual(main())


def test_a_cluster_restored_from_a_backup_replaces_everything() -> None:
    async def main() -> None:
        store = new_store()
        await listed(store, 50, item("a", 40, "blue"), item("gone", 45))
        store.bookmark(60)
        await listed(store, 20, item("a", 10, "old"))
        assert store.snapshot() == {key("a"): "old"}
        store.apply(item("a", 21, "new"))
        assert store.get(key("a")) == "new"

    run_virtual(main())


def test_indexes_follow_every_change() -> None:
    async def main() -> None:
        store = new_store()
        await listed(store, 5, item("b", 2, "blue"), item("a", 1, "brown"), item("c", 3, "red"))
        assert store.by_index("initial", "b") == ("brown", "blue")
        store.apply(item("a", 6, "rose"))
        store.remove(item("b", 7))
        assert store.by_index("initial", "b") == ()
        assert store.by_index("initial", "r") == ("rose", "red")
        with pytest.raises(InvalidFieldError, match="one of initial"):
            store.by_index("size", "b")

    run_virtual(main())


def test_age_counts_from_the_last_word_of_the_server() -> None:
    async def main() -> None:
        clock = VirtualClock()
        store = Store(color_of, clock=clock)
        store.in_step()
        await clock.sleep(7)
        assert store.age_s() == pytest.approx(7)

    run_virtual(main())


def test_a_slow_consumer_gets_each_object_once_as_it_is_when_it_looks() -> None:
    async def main() -> None:
        store = new_store()
        await listed(store, 5, item("a", 4, "blue"), item("b", 3))
        queue = store.subscribe()
        assert {change.key.name for change in queue.take_all()} == {"a", "b"}
        for version in range(6, 1006):
            store.apply(item("a", version, f"v{version}"))
        store.remove(item("b", 1006))
        store.apply(item("c", 1007, "cyan"))
        store.remove(item("c", 1008))
        assert len(queue) == 3
        assert queue.take_all() == [
            StoreChange(key("a"), "blue", "v1005"),
            StoreChange(key("b"), "red", None),
            StoreChange(key("c"), None, None),
        ]

    run_virtual(main())


def test_a_new_list_queues_differences_only() -> None:
    async def main() -> None:
        store = new_store()
        await listed(store, 5, item("a", 4), item("b", 3), item("c", 2))
        queue = store.subscribe()
        queue.take_all()
        await listed(store, 9, item("a", 4), item("b", 8, "blue"), item("d", 7))
        changes = sorted(queue.take_all(), key=lambda change: change.key)
        assert changes == [
            StoreChange(key("b"), "red", "blue"),
            StoreChange(key("c"), "red", None),
            StoreChange(key("d"), None, "red"),
        ]

    run_virtual(main())


def test_a_consumer_that_has_ended_gets_no_more_changes() -> None:
    async def main() -> None:
        store = new_store()
        ended, other = store.subscribe(), store.subscribe()
        store.unsubscribe(ended)
        store.apply(item("a", 1))
        assert (len(ended), len(other)) == (0, 1)

    run_virtual(main())


def test_a_consumer_waits_for_the_next_change() -> None:
    async def main() -> None:
        store = new_store()
        queue = store.subscribe()
        taking = asyncio.ensure_future(queue.take())
        await asyncio.sleep(1)
        assert not taking.done()
        store.apply(item("a", 1))
        assert await taking == StoreChange(key("a"), None, "red")

    run_virtual(main())


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["apply", "observe", "remove", "list"]), st.sampled_from("abc"), st.integers(1, 30)
    ),
    max_size=40,
)


@given(STEPS)
def test_no_order_of_events_makes_an_index_wrong(steps: list[tuple[str, str, int]]) -> None:
    async def main() -> None:
        store = new_store()
        for step, name, version in steps:
            document = item(name, version, "rgb"[version % 3] + name)
            match step:
                case "list":
                    await listed(store, version, document)
                case "apply":
                    store.apply(document)
                case "observe":
                    store.observe(document)
                case _:
                    store.remove(document)
            for initial in "rgb":
                wanted = {color for color in store.snapshot().values() if color[0] == initial}
                assert set(store.by_index("initial", initial)) == wanted

    run_virtual(main())


def test_versions_are_numbers() -> None:
    document: dict[str, Any] = {"metadata": {"name": "a"}}
    assert version_of(document) == 0
    assert version_of(item("a", 17)) == 17
