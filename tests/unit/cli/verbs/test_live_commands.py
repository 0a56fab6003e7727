"""Commands against a running shard: what they print, and what they say when it does not answer.

Rules: `packaging#other-commands`, `wire#codes`.
"""

import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import structlog
import yaml

from bigfleet.aio.identity import READONLY, Identity
from bigfleet.aio.net import Channel, Code, NotConnectedError, RpcError
from bigfleet.app.bigfleet import PROGRAM
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.dispatch import dispatch
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.verbs import live_shard
from bigfleet.document.snapshot import write_situation
from bigfleet.model.frozen_map import NO_TEXTS
from bigfleet.model.machine import CapacityType
from bigfleet.model.machine import MachineState as S
from bigfleet.model.need import Need
from bigfleet.model.profile import Profile, Requirement, RequirementOperator
from bigfleet.model.situation import Situation
from bigfleet.shard.core.read.decision_log import DecisionLog
from bigfleet.shard.core.read.status_sources import StatusSources
from bigfleet.shard.core.views import CycleFacts, HoldOff, MachineBackoff, OfferingCoolOff, ProviderHealth
from bigfleet.shard.read import explainer
from bigfleet.shard.read.cycle_follower import CycleFollower
from bigfleet.shard.read.insight_service import InsightService
from bigfleet.shard.read.read_service import ReadService
from bigfleet.testing.net.network import Network
from tests.support.builders import amounts, assigned, machine, shape
from tests.support.shard_views import StaticShard

GANG = Profile((Requirement("rack", RequirementOperator.SAME),), priority=900)
SITUATION = Situation(
    1_700_000_000.0,
    (
        machine("m-1", S.CONFIGURED, cluster="web", assigned=assigned(5), shape=shape("m5")),
        machine("m-2", S.IDLE, shape=shape("m5", price=2.0), idle_since=1_699_999_990.0),
        machine("m-3", S.SPECULATIVE, shape=shape("g8", labels={"rack": "r1"})),
        machine("m-4", S.FAILED, shape=shape("g8")),
    ),
    (
        Need("train", GANG, amounts(cpu=64, memory="256Gi"), amounts(cpu=4), group="llm-7"),
        Need("web", Profile(priority=5), amounts(cpu=4)),
    ),
    reported_clusters=frozenset({"train", "web"}),
)


class Live:
    """A shard with a fixed situation, and runs of the program against it."""

    def __init__(self) -> None:
        self.shard = StaticShard()
        self.identity: Identity | None = None
        self.insight = True

    @asynccontextmanager
    async def dialled(self, settings: object, console: object, address: str) -> AsyncIterator[Channel]:
        assert address == "shard-0:7780"
        network = Network(secured=self.identity is not None)
        services = [ReadService(self.shard).bound()]
        if self.insight:
            watching = CycleFollower(self.shard, DecisionLog(), log=structlog.get_logger())
            standing = StatusSources(is_pending=lambda machine_id: machine_id == "m-2")
            services.append(InsightService(self.shard, watching, standing).bound())
        await network.host("shard-0", Identity.shard("shard-0")).serve(":7780", services)
        yield network.host("reader", self.identity).dial(address)

    def run(self, line: str, environ: Mapping[str, str] = NO_TEXTS) -> tuple[int, str, str]:
        out, err = StringIO(), StringIO()
        now = datetime(2030, 1, 1, 0, 0, 13, tzinfo=UTC)  # three seconds after the cycle
        code = dispatch(Console(PROGRAM, out, err, environ, lambda: now), line.split())
        return code, out.getvalue(), err.getvalue()

    def good(self, line: str) -> str:
        code, out, err = self.run(line)
        assert (code, err) == (0, "")
        return out


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> Live:
    live = Live()
    live.shard.complete(SITUATION)
    monkeypatch.setattr(live_shard, "_dialled", live.dialled)
    return live


def test_snapshot_prints_the_document_of_the_last_cycle(live: Live) -> None:
    assert live.good("snapshot --shard shard-0:7780").encode() == write_situation(SITUATION)


def test_the_printed_document_decides_explains_and_edits_as_the_live_shard_does(
    live: Live, tmp_path: Path
) -> None:
    saved = tmp_path / "snapshot.json"
    saved.write_text(live.good("snapshot --shard shard-0:7780"))
    for what in ("--need train/llm-7", "--need 1 --quick", "--machine m-2", "--machine m-1 -o yaml"):
        assert live.good(f"explain --shard shard-0:7780 {what}") == live.good(f"explain {saved} {what}")
    edits = tmp_path / "edits.yaml"
    edits.write_text("edits:\n  - {edit: add_machines, count: 20, like: m-3}\n")
    live_answer = live.good(f"what-if --shard shard-0:7780 --edit {edits}")
    assert live_answer == live.good(f"what-if {saved} --edit {edits}")
    assert live_answer.startswith("1 need becomes satisfied")
    inside = live.good(f"explain --shard shard-0:7780 --edit {edits} --need train/llm-7 --quick")
    assert inside == live.good(f"explain {saved} --edit {edits} --need train/llm-7 --quick")
    assert live.good("what-if --shard shard-0:7780").startswith("no edit was given")


def test_needs_prints_the_cycle_and_a_row_for_each_need(live: Live) -> None:
    lines = live.good("needs --shard shard-0:7780").splitlines()
    assert lines[0] == "the shard, cycle 1 of 2030-01-01T00:00:10Z (3 s ago), 2 needs"
    assert [re.split(" {2,}", line) for line in lines[2:]] == [
        ["", "NEED", "PRIORITY", "DEMAND", "RUNNING", "JOINING", "ON ORDER", "WANTED", "MISSING", "WHY"],
        [
            *("!", "train/llm-7", "900", "cpu=64 memory=256Gi", "0", "0", "0", "1", "cpu=64 memory=256Gi"),
            "topology unsatisfiable",
        ],
        ["", "web", "5", "cpu=4", "1", "0", "0", "0", "—", "—"],
    ]


def test_needs_short_only_of_a_cluster_and_limited(live: Live) -> None:
    short = live.good("needs --shard shard-0:7780 --short").splitlines()
    assert short[0].endswith("2 needs, 1 short")
    assert [line.split()[1] for line in short[3:]] == ["train/llm-7"]
    assert live.good("needs --shard shard-0:7780 --cluster web").splitlines()[0].endswith("1 need")
    limited = live.good("needs --shard shard-0:7780 --limit 1").splitlines()
    assert limited[0].endswith("2 needs, 1 shown")
    assert len(limited) == 4
    wide = live.good("needs --shard shard-0:7780 --short -o wide")
    assert "idle=0 speculative=1 configured=0" in wide
    assert GANG.fingerprint in wide


@pytest.mark.parametrize(
    "flags", ["--short", "--short --limit 1", "--short --cluster web", "--short -o json"]
)
def test_needs_that_are_short_read_the_same_from_a_shard_of_the_original(live: Live, flags: str) -> None:
    """It cannot leave anything out by itself, so the command does."""
    needs = tuple(Need(f"c-{n}", Profile(priority=n), amounts(cpu=4)) for n in range(5))
    live.shard.complete(Situation(0.0, (machine("m-1"),), (*SITUATION.needs, *needs)))
    ours = live.good(f"needs --shard shard-0:7780 {flags}")
    live.insight = False
    assert live.good(f"needs --shard shard-0:7780 {flags}") == ours
    assert len(ours) > 10


def test_needs_as_json_and_yaml_use_the_names_of_the_wire(live: Live) -> None:
    (first, second) = json.loads(live.good("needs --shard shard-0:7780 -o json"))["needs"]
    assert (first["cluster_id"], first["unmet_reason"]) == ("train", "UNMET_REASON_TOPOLOGY_UNSATISFIABLE")
    assert (second["satisfied"], second["claimed_machine_count"]) == (True, 1)
    assert yaml.safe_load(live.good("needs --shard shard-0:7780 -o yaml"))["needs"] == [first, second]


@pytest.mark.parametrize("form", ["table", "wide", "json", "yaml"])
@pytest.mark.parametrize(
    "line",
    [
        "status",
        "needs",
        "machines",
        "explain --need train/llm-7",
        "explain --machine m-1",
        "what-if",
        "watch --cycles 1",
    ],
)
def test_every_look_at_a_shard_takes_the_same_flags_and_has_the_same_four_forms(
    live: Live, line: str, form: str
) -> None:
    code, out, err = live.run(f"{line} --shard shard-0:7780 -o {form} --timeout 30s --no-color")
    assert (code, err) == (ExitCode.FAILURE if line == "status" else ExitCode.DONE, "")
    if form == "json":
        assert isinstance(json.loads(out), dict)
    elif form == "yaml":
        assert isinstance(yaml.safe_load(out), dict)
    else:
        assert "\x1b" not in out
        assert out.strip()


def test_no_cycle_yet_is_told_and_is_not_no_demand(live: Live) -> None:
    live.shard = StaticShard()
    assert live.good("needs --shard shard-0:7780") == "the shard has completed no cycle yet\n"
    assert live.good("machines --shard shard-0:7780") == "shard shard-0 has completed no cycle yet\n"
    for line in ("snapshot", "explain --need 0", "explain --machine m-1", "what-if"):
        code, out, err = live.run(f"{line} --shard shard-0:7780")
        assert (code, out) == (ExitCode.REFUSED, "")
        assert "no cycle yet" in err
        assert "/readyz" in err


def test_machines_prints_counts_and_rows_with_a_star_for_a_pending_action(live: Live) -> None:
    lines = live.good("machines --shard shard-0:7780").splitlines()
    assert lines[0] == (
        "shard shard-0, cycle 1 of 2030-01-01T00:00:10Z (3 s ago), 4 of 4 machines, 1 Configured, 1 Failed, 1 Idle, "
        "1 Speculative"
    )
    assert [line.split()[:2] for line in lines[3:]] == [
        ["m-1", "Configured"],
        ["m-2", "Idle*"],
        ["m-3", "Speculative"],
        ["m-4", "Failed"],
    ]
    assert "it broke" in lines[-1]


@pytest.mark.parametrize(
    ("flags", "wanted"),
    [
        pytest.param("--state Idle,Failed", ["m-2", "m-4"], id="states"),
        pytest.param("--cluster web", ["m-1"], id="cluster"),
        pytest.param("--free", ["m-2", "m-3", "m-4"], id="without a cluster"),
        pytest.param("--type g8 --state Speculative", ["m-3"], id="type and state"),
        pytest.param("--zone nowhere", [], id="zone"),
        pytest.param("--capacity OnDemand --id -4", ["m-4"], id="capacity and id"),
        pytest.param("--sort price --descending --limit 1", ["m-2"], id="sorted and limited"),
    ],
)
def test_machines_are_filtered_by_the_shard(live: Live, flags: str, wanted: list[str]) -> None:
    rows = json.loads(live.good(f"machines --shard shard-0:7780 {flags} -o json"))["machines"]
    assert [row["id"] for row in rows] == wanted


def test_machines_says_when_more_could_be_shown(live: Live) -> None:
    assert "1 shown; --limit 0 shows all" in live.good("machines --shard shard-0:7780 --limit 1")
    wide = live.good("machines --shard shard-0:7780 -o wide")
    assert "2023-11-14T22:13:10Z" in wide
    assert "host-of-m-1" in wide


def test_the_page_on_reading_a_shard_shows_what_is_printed(live: Live) -> None:
    page = (Path(__file__).parents[4] / "docs" / "reading-a-shard.md").read_text(encoding="utf-8")
    shown = re.findall(r"```text\n\$ bigfleet (.+)\n((?:.*\n)+?)```", page)
    assert len(shown) == 3
    for line, printed in shown:
        assert live.run(line)[1] == printed


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (
            "machines --shard shard-0:7780 --state idle",
            "--state: found 'idle', allowed is one of Speculative",
        ),
        ("explain --shard shard-0:7780", "--need, --machine: found neither, allowed is one of the two"),
        ("explain --need 1", "SNAPSHOT, --shard: found neither, allowed is one of the two"),
        (
            "explain x.json --shard shard-0:7780 --need 1",
            "SNAPSHOT, --shard: found both, allowed is one of the two",
        ),
        ("what-if", "SNAPSHOT, --shard: found neither, allowed is one of the two"),
        ("needs", "--shard: missing"),
        ("machines --shard nowhere", "--shard: found 'nowhere'"),
        ("snapshot --shard shard-0:7780 --tls-cert x", "all three TLS flags or none"),
    ],
)
def test_a_command_that_is_asked_wrongly_says_what_is_allowed(live: Live, line: str, text: str) -> None:
    code, out, err = live.run(line)
    assert (code, out) == (ExitCode.USAGE, "")
    assert text in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "line", ["status", "needs", "machines", "snapshot", "explain --need 0", "watch --cycles 1"]
)
def test_one_variable_and_either_flag_name_say_where_the_shard_is(live: Live, line: str) -> None:
    by_flag = live.run(f"{line} --shard shard-0:7780")
    assert by_flag[2] == ""
    assert live.run(f"{line} --shard-addr shard-0:7780") == by_flag
    assert live.run(line, {"BIGFLEET_SHARD": "shard-0:7780"}) == by_flag


def test_a_file_comes_before_a_shard_that_only_the_environment_names(live: Live, tmp_path: Path) -> None:
    saved = tmp_path / "snapshot.json"
    saved.write_text(live.good("snapshot --shard shard-0:7780"), encoding="utf-8")
    code, out, err = live.run(f"explain {saved} --need 0 --quick", {"BIGFLEET_SHARD": "nobody:1"})
    assert (code, err) == (ExitCode.DONE, "")
    assert out.startswith("need 0 of")


@pytest.mark.parametrize(
    ("what", "text"),
    [("--need 9", "need: found '9', allowed is a number from 0 to 1"), ("--machine m-9", "no machine 'm-9'")],
)
def test_what_is_not_there_is_reported_as_such(live: Live, what: str, text: str) -> None:
    code, out, err = live.run(f"explain --shard shard-0:7780 {what}")
    assert (code, out) == (ExitCode.NOT_FOUND, "")
    assert text in err


@pytest.mark.parametrize(
    ("failure", "code", "text"),
    [
        (
            NotConnectedError("refused"),
            ExitCode.UNAVAILABLE,
            "cannot be reached: refused; check that it runs",
        ),
        (RpcError(Code.DEADLINE_EXCEEDED, "x"), ExitCode.UNAVAILABLE, "use a larger --timeout"),
        (RpcError(Code.RESOURCE_EXHAUSTED, "9 wait"), ExitCode.UNAVAILABLE, "is busy: 9 wait"),
        (RpcError(Code.INTERNAL, "oops"), ExitCode.FAILURE, "failed: INTERNAL: oops"),
    ],
    ids=["unreachable", "too slow", "busy", "anything else"],
)
def test_a_shard_that_fails_is_reported_in_one_line_with_the_next_step(
    live: Live, monkeypatch: pytest.MonkeyPatch, failure: RpcError, code: ExitCode, text: str
) -> None:
    class Failing:
        def server_stream(self, *_args: object, **_given: object) -> object:
            raise failure

        async def close(self) -> None: ...

    @asynccontextmanager
    async def dialled(*_args: object) -> AsyncIterator[Failing]:
        yield Failing()

    monkeypatch.setattr(live_shard, "_dialled", dialled)
    found, out, err = live.run("needs --shard shard-0:7780")
    assert (found, out) == (code, "")
    assert text in err
    assert err.count("\n") == 1


def test_on_a_large_fleet_changes_are_left_out_and_where_to_try_them_is_reported(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explainer, "LARGE", 3)
    code, out, err = live.run("explain --shard shard-0:7780 --need train/llm-7")
    assert code == 0
    assert "too large to try changes in the shard; save it with bigfleet snapshot" in err
    assert "WHAT WOULD CHANGE IT" not in out
    assert (
        live.good("explain --shard shard-0:7780 --need train/llm-7 --quick").splitlines()[:2]
        == out.splitlines()[:2]
    )


def test_a_certificate_that_may_not_read_gets_a_hint_how_to_create_one(live: Live) -> None:
    live.identity = Identity.cluster("web")
    code, out, err = live.run("needs --shard shard-0:7780")
    assert (code, out) == (ExitCode.PERMISSION, "")
    assert "bigfleet certs issue DIR --role readonly" in err
    live.identity = READONLY
    live.good("needs --shard shard-0:7780")


def test_a_shard_without_insight_still_shows_its_needs_and_says_what_it_lacks(live: Live) -> None:
    """`dashboard#original-fleet`: shards of the original."""
    live.insight = False
    assert "2 needs" in live.good("needs --shard shard-0:7780")
    code, out, err = live.run("machines --shard shard-0:7780")
    assert (code, out) == (ExitCode.REFUSED, "")
    assert "does not offer this" in err


SLOT = machine("s-1", S.SPECULATIVE, shape=shape("g8", zone="za", resources={"nvidia.com/gpu": "8"}))
GPUS = Need("web", Profile(priority=5), amounts(**{"nvidia.com/gpu": 8}))


@pytest.mark.rule("shard#problems-in-one-look", "shard#coverage-split")
def test_with_a_dead_provider_status_and_needs_name_it_and_status_exits_1(live: Live) -> None:
    live.shard.complete(
        Situation(100.0, (SLOT,), (GPUS,)),
        held_off={0: HoldOff.PROVIDER_UNREACHABLE},
        waiting_since_s={0: 70.0},
        facts=CycleFacts(backed_off=1),
    )
    live.shard.stand(provider=ProviderHealth(False, 12.0, 3, "connection refused", 4.0))
    code, out, _ = live.run("status --shard shard-0:7780")
    assert (code, out.splitlines()[:3]) == (
        1,
        [
            "1 of 1 need is short: web is short 8 GPUs: provider unreachable; provider unreachable for 12 s",
            "problem: provider provider.example:9000 unreachable for 12 s: connection refused; 1 action waits; "
            "next attempt in 4 s",
            "shard shard-0, cycle 2 of 2030-01-01T00:00:20Z, ready, 0 actions waiting, 0 running",
        ],
    )
    row = live.good("needs --shard shard-0:7780 --short").splitlines()[-1]
    assert re.split(" {2,}", row)[4:] == [
        *("0", "0", "0", "1", "nvidia.com/gpu=8"),
        "provider unreachable (waiting 30 s)",
    ]


@pytest.mark.rule("shard#problems-in-one-look")
@pytest.mark.parametrize(
    ("changed", "code", "first"),
    [
        ({}, 0, "The one need is covered"),
        (
            {"ready": False, "not_ready": ("the provider has not been listed yet",)},
            1,
            "The one need is covered",
        ),
        ({"paused": True}, 1, "The one need is covered; the shard has stopped itself"),
        (
            {"provider": ProviderHealth(doubted_for_s=30.0, doubted_missing=20)},
            1,
            "The one need is covered; the provider's listings are doubted",
        ),
    ],
)
def test_status_exits_0_only_if_nothing_is_wrong(
    live: Live, changed: dict[str, Any], code: int, first: str
) -> None:
    fleet = (machine("m-1", S.CONFIGURED, cluster="web"),)
    live.shard.complete(Situation(0.0, fleet, (Need("web", Profile(priority=5), amounts(cpu=4)),)))
    live.shard.stand(**changed)
    found, out, _ = live.run("status --shard shard-0:7780")
    assert (found, out.splitlines()[0]) == (code, first)


@pytest.mark.rule("shard#offering-cool-off", "shard#machine-back-off")
def test_machines_shows_which_are_stocked_out_or_in_back_off_and_until_when(live: Live) -> None:
    live.shard.complete(
        Situation(100.0, (SLOT, machine("s-2", S.SPECULATIVE)), ()),
        cool_offs=(OfferingCoolOff("g8", "za", CapacityType.ON_DEMAND, "stockout: none", 1, 140.0),),
        machine_backoffs={"s-2": MachineBackoff("create: quota", 99.0)},
    )
    out = live.good("machines --shard shard-0:7780")
    assert "stocked out, next attempt in 40 s  stockout: none" in out
    assert "failed, next attempt due           create: quota" in out
    code, status, _ = live.run("status --shard shard-0:7780")
    assert (code, status.splitlines()[0]) == (
        1,
        "No cluster asks for capacity; g8 in za (OnDemand) is stocked out; next attempt in 40 s",
    )
