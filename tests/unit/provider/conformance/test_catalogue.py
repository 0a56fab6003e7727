"""The table of behaviours is the contract's, id by id."""

import ast
from pathlib import Path

import pytest

import bigfleet.provider.conformance
from bigfleet.aio.clock import SystemClock
from bigfleet.aio.net import Net
from bigfleet.model.errors import InvalidFieldError
from bigfleet.provider.conformance.behaviour import Behaviour, Lane
from bigfleet.provider.conformance.catalogue import BEHAVIOURS, find, listing, required, selected
from bigfleet.provider.conformance.families.metadata import hostile
from bigfleet.provider.conformance.settings import ConformanceProfile, RunSettings
from bigfleet.testing.net.network import Network

EXTENSION = (
    (101, *range(103, 110)),
    range(201, 216),
    (301, 302, 303, *range(305, 313)),
    range(401, 410),
    range(501, 506),
    range(701, 709),
    range(801, 808),
    range(901, 910),
    range(1001, 1008),
    range(1101, 1110),
    range(1201, 1206),
)
IDS = [
    *(f"A{number:02d}" for number in range(1, 28)),
    *(f"B{number}" for family in EXTENSION for number in family),
    *(f"X{number:02d}" for number in range(1, 13)),
]
NAMES = """FullLifecycle CreateIdempotent ConfigureIdempotent DrainIdempotent DeleteIdempotent GetUnknownMachine
DeleteUnknownMachine ListFiltersByState ListMaxResults LabelShape CostFieldBounds ListRevisionAdvances DrainOnSpeculative
DeleteOnConfigured TransitionalStateObservability DrainGraceTimeout FencingUnknownShardAccepted FencingStaleEpochRejected
FencingStaleSequenceRejected FencingPerMachineIsolation FencingNewEpochResetsSequence FencingReadsUnaffected
MetadataEchoedOnGetAndList MetadataAndBindingClearOnDrain MetadataUnknownKeysPreservedVerbatim NodeReadiness SelfTest"""
PROFILES = {
    "A05": ("cloud",),
    "B802": ("core", "spot"),
    **dict.fromkeys(("B109", "B204", "B215", "B409", "B807"), ("core", "cloud")),
}


@pytest.fixture
def settings() -> RunSettings:
    return make_settings()


def make_settings(**chosen: object) -> RunSettings:
    net: Net = Network().host("nowhere")
    return RunSettings(net=net, clock=SystemClock(), run_id="r", **chosen)  # type: ignore[arg-type]


@pytest.mark.rule("providers#behaviour-ids")
def test_all_27_baseline_93_extension_and_12_further_behaviours_exist_by_id_and_in_order() -> None:
    assert [behaviour.id for behaviour in BEHAVIOURS] == IDS
    assert [sum(behaviour_id.startswith(letter) for behaviour_id in IDS) for letter in "ABX"] == [27, 93, 12]


@pytest.mark.rule("providers#behaviour-ids")
def test_the_baseline_bears_the_names_of_the_original() -> None:
    assert [behaviour.name for behaviour in BEHAVIOURS if behaviour.id.startswith("A")] == NAMES.split()


def test_profiles_are_those_of_the_table() -> None:
    lanes = {Lane.FAULT: ("fault",), Lane.DURABLE: ("durable",), Lane.SCALE: ("scale",), Lane.EXTRA: ()}
    for behaviour in BEHAVIOURS:
        due = PROFILES.get(behaviour.id, lanes.get(behaviour.lane, ("core",)))
        assert behaviour.profiles == due, behaviour.id


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda behaviour: behaviour.id)
def test_every_behaviour_says_in_a_sentence_what_it_means_and_in_steps_what_it_does(
    behaviour: Behaviour,
) -> None:
    assert behaviour.meaning.endswith(".")
    assert 10 < len(behaviour.meaning) < 120
    assert behaviour.steps.startswith("1. ")


def test_the_listing_has_a_row_for_each() -> None:
    assert [row["id"] for row in listing()] == IDS
    assert all(row["meaning"] for row in listing())


def test_a_behaviour_is_found_by_its_id_in_any_case() -> None:
    assert find("b303").id == "B303"
    with pytest.raises(InvalidFieldError, match="B102"):
        find("B102")


def test_the_baseline_is_always_required(settings: RunSettings) -> None:
    fault = make_settings(profiles=(ConformanceProfile.FAULT,))
    ids = [behaviour.id for behaviour in required(fault)]
    assert ids == [*IDS[:27], *(f"B{number}" for number in range(701, 709))]


def test_core_cloud_and_spot_require_everything_that_needs_no_special_endpoint(settings: RunSettings) -> None:
    ids = [behaviour.id for behaviour in required(settings)]
    special = {f"B{number}" for number in (*range(701, 709), *range(1001, 1008), *range(1101, 1110))}
    assert ids == [behaviour_id for behaviour_id in IDS[:120] if behaviour_id not in special]


def test_bare_metal_stands_in_for_core() -> None:
    core = [behaviour.id for behaviour in required(make_settings(profiles=(ConformanceProfile.CORE,)))]
    assert [b.id for b in required(make_settings(profiles=(ConformanceProfile.BARE_METAL,)))] == core
    with pytest.raises(InvalidFieldError, match="one of the two"):
        make_settings(profiles=(ConformanceProfile.CORE, ConformanceProfile.BARE_METAL))


def test_quick_further_behaviours_run_along_and_long_ones_only_when_asked_for(settings: RunSettings) -> None:
    along = [behaviour.id for behaviour in selected(settings) if behaviour.lane is Lane.EXTRA]
    assert along == ["X01", "X02", "X03", "X05", "X09", "X10", "X11", "X12"]
    assert not any(behaviour.lane is Lane.EXTRA for behaviour in required(settings))
    everything = [b.id for b in required(make_settings(extra=True)) if b.lane is Lane.EXTRA]
    assert everything == IDS[-12:]


def test_patterns_choose_behaviours_and_must_match_something() -> None:
    assert [b.id for b in selected(make_settings(only=("b30?", "X12")))] == [
        "B301",
        "B302",
        "B303",
        "B305",
        "B306",
        "B307",
        "B308",
        "B309",
        "X12",
    ]
    with pytest.raises(InvalidFieldError, match="C01"):
        selected(make_settings(only=("C01",)))


def test_exactly_55_hostile_keys_are_sent() -> None:
    entries = hostile()
    assert len(entries) == 55
    assert any("\x00" in key for key in entries)
    assert "" in entries.values()
    assert all(f"<{chr(code)}>" in entries.values() for code in range(0x20))


def test_the_kit_knows_nothing_of_a_provider_but_the_wire() -> None:
    root = Path(bigfleet.provider.conformance.__file__).parent
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [str(node.module)]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            for name in names:
                ours = (
                    "bigfleet.provider.conformance",
                    "bigfleet.provider.methods",
                )  # the latter names the six calls
                foreign = name.startswith("bigfleet.provider") and not name.startswith(ours)
                assert not foreign, f"{path.relative_to(root)} imports {name}"
                assert not name.startswith("bigfleet.wire"), f"{path.relative_to(root)} imports {name}"
