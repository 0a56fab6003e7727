"""The figures of `make bench` for people: a table per world that was measured; programs read the JSON."""

from collections.abc import Iterator
from typing import Any

Measured = dict[str, Any]  # Any: what a child process printed, as JSON has it

_COLUMNS = "{:<24} {:>10} {:>10} {:>10} {:>10} {:>10} {:>6}"
_NAMES = ("benchmark", "units", "CPU ms", "p99", "wall ms", "p99", "calls")


def tables(measured: Measured, name: str) -> Iterator[str]:
    """Every world found in what one part measured, line by line; `name` is for a world that does not say its own."""
    if "phases" in measured:
        yield ""
        yield from _phases(measured)
        return
    if "results" in measured:
        yield ""
        yield from _table(measured, measured.get("profile", name))
        return
    if "hops_s" in measured:
        yield ""
        yield f"{name}: {measured['pods']} pods; seconds from pod to Create call, and of each hop"
        for hop, times in {"total": measured["total_s"], **measured["hops_s"]}.items():
            yield f"{hop:<24} {times['p50']:>10} {times['p99']:>10} {times['max']:>10}"
        return
    if "waited_s" in measured:
        yield ""
        yield f"{measured['on_order']} machines on order; seconds from Idle to Configure call: median, p99, longest"
        yield " ".join(f"{figure:>10}" for figure in measured["waited_s"].values())
        return
    if "ways" in measured:
        yield ""
        yield f"{name}: CPU ms of a decision (median, p99), collections in it and their ms"
        for way, times in measured["ways"].items():
            yield f"{way:<24} " + " ".join(f"{figure:>8}" for figure in times.values())
        return
    if "rounds_s" in measured:
        yield f"{name:<48} {measured['p50_s']:>10} {measured['max_s']:>10}"
        return
    if "answers" in measured:
        yield ""
        yield f"{name}: {measured['machines']:,} machines, {measured['needs']:,} needs; median CPU ms and bytes per answer"
        for path, answer in measured["answers"].items():
            yield f"{path:<60} {answer['median_ms']:>8} {answer['bytes']:>9,}"
        return
    if "worlds" in measured:
        yield ""
        yield from _diverse(measured)
        return
    if "attacks" in measured:
        yield ""
        yield from _attacks(measured)
        return
    if "shapes" in measured:
        yield ""
        yield from _shapes(measured)
        return
    for key, value in measured.items():
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, dict):
                yield from tables(inner, f"{name} {key}")


_PHASE = "{:<32} {:>8} {:>10} {:>10} {:>8} {:>12} {:>8} {:>9}"


def _phases(measured: Measured) -> Iterator[str]:
    """What a shard under load showed, phase by phase."""
    yield f"one shard, {measured['machines']:,} machines, {measured['clusters']:,} operators"
    yield _PHASE.format("phase", "seconds", "lag p50", "lag p99", "cycles", "longest ms", "CPU", "RSS MB")
    for phase in measured["phases"]:
        lag, cycles = phase["lag_ms"], phase["cycle_ms"]
        figures = (phase["seconds"], lag["p50"], lag["p99"], phase["cycles"], cycles["max"])
        yield _PHASE.format(phase["name"], *figures, f"{phase['cpu_share']:.0%}", phase["rss_mb"])


_ATTACK = "{:<46} {:>9} {:>9} {:>9} {:>8} {:>8} {:>9}"


def _attacks(measured: Measured) -> Iterator[str]:
    """What each attack of the siege cost the honest clusters."""
    yield f"one hostile tenant and {measured['honest_clusters']} honest clusters, {measured['attack_s']:g} s each"
    yield _ATTACK.format("attack", "ack p99 s", "cycle p50", "cycle p99", "peak MB", "left MB", "log B/min")
    for name, attack in measured["attacks"].items():
        times = (f"{attack[f'cycle_{share}_times']:g}×" for share in ("p50", "p99"))
        memory = (attack["peak_above_normal_mb"], attack["left_above_normal_mb"])
        yield _ATTACK.format(name, attack["ack_p99_s"], *times, *memory, attack["log_bytes_per_minute"])


_SHAPE = "{:<30} {:>9} {:>7} {:>8} {:>10} {:>10} {:>10} {:>10} {:>10}"


def _shapes(measured: Measured) -> Iterator[str]:
    """What the shapes of open demand cost, in units, beside what the original published on its own hardware."""
    heads = (
        "shape",
        "machines",
        "needs",
        "actions",
        "full pass",
        "CPU ms",
        "all read",
        "one changed",
        "published",
    )
    yield _SHAPE.format(*heads)
    for shape in measured["shapes"]:
        results = {result["name"]: result for result in shape["results"]}
        units = {name: f"{result['units']:.3g}" for name, result in results.items()}
        shown = results.get("full_pass", results["one_changed"])
        yield _SHAPE.format(
            shape["shape"],
            *(shape[name] for name in ("machines", "needs", "actions")),
            units.get("full_pass", "–"),
            f"{shown['cpu_ms']['median']:.4g}",
            units.get("read_pass", "–"),
            units["one_changed"],
            shape["published"] or "–",
        )


_DIVERSE = "{:>8} {:<10} {:>6} {:>10} {:>8} {:>10} {:>14} {:>16}"


def _diverse(measured: Measured) -> Iterator[str]:
    """Pods in the shapes of Karpenter's benchmark."""
    yield "diverse pods; CPU from the list of pods to the list of actions, the sum's machines, and those once nothing moves any more"
    yield _DIVERSE.format(
        "pods", "", "rows", "CPU ms", "units", "machines", "without a node", "times the bound"
    )
    for world in measured["worlds"]:
        for when in ("sum_alone", "at_rest"):
            yield _DIVERSE.format(
                world["pods"],
                when,
                *(world[name] for name in ("rows", "cpu_ms", "units")),
                *(world[when][name] for name in ("machines", "without_node", "times_bound")),
            )


def _table(measured: Measured, name: str) -> Iterator[str]:
    memory = measured["memory"]["bytes_per_machine"]
    yield f"{name}: one unit is {measured['unit_ms']:.1f} ms here; {memory:.1f} bytes per machine"
    yield _COLUMNS.format(*_NAMES)
    for result in measured["results"]:
        spans = [result[clock][part] for clock in ("cpu_ms", "wall_ms") for part in ("median", "p99")]
        figures = [f"{figure:.4g}" for figure in (result["units"], *spans)]
        yield _COLUMNS.format(result["name"], *figures, result["repetitions"])
