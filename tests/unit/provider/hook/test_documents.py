"""Inventory files: what is understood, and every way to be refused, with its path.

Rules: `providers#hook-inventory`, `providers#hook-modes`.
"""

import json
from contextlib import suppress

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from bigfleet.model.machine import CapacityType, MachineState
from bigfleet.provider.hook.core.documents import read_discovered, read_inventory
from bigfleet.provider.hook.core.errors import HookOutputError, InventoryError
from bigfleet.provider.hook.core.inventory import (
    HookInventory,
    HookKind,
    InventoryMode,
    changes_refused,
    warnings_of,
)
from bigfleet.provider.hook.core.protocol import HookOutput, read_output
from tests.unit.provider.hook.harness import POWER_MANAGED, inventory, machine_line

SETS = {
    "ssh": {HookKind.CONFIGURE: "/sets/ssh/configure", HookKind.DRAIN: "/sets/ssh/drain"},
    "ipmi": {HookKind.CREATE: "/sets/ipmi/create", HookKind.DELETE: "/sets/ipmi/delete"},
}
WHOLE = """
name: hall-7
clusters: {prod-eu: {kubeconfig: /etc/bf/prod-eu.kubeconfig}, dev: {kubeconfig: dev.kubeconfig}}
hooks: {configure: ./ssh/configure, drain: ./ssh/drain, probe: /opt/probe}
pass_env: [SSH_AUTH_SOCK]
resume: true
machines:
  - {id: r12u07, ref: 10.7.12.7, instance_type: gen11-96c, zone: hall-7, capacity_type: bare-metal,
     resources: {cpu: "96", memory: 384Gi}, allocatable: {cpu: 94, memory: 370Gi},
     labels: {topology.bigfleet/rack: r12}, vars: {bmc: 10.8.12.7}}
"""


def read(text: str, path: str = "/etc/bf/a.yaml") -> HookInventory:
    return read_inventory([(path, text.encode())], SETS)


def faults(text: str, path: str = "/etc/bf/a.yaml") -> tuple[str, ...]:
    with pytest.raises(InventoryError) as caught:
        read(text, path)
    return caught.value.faults


def test_the_example_of_the_contract_is_understood() -> None:
    found = read(WHOLE)
    entry = found.entries["r12u07"]
    assert (found.name, found.mode, found.resume, found.pass_env) == (
        "hall-7",
        InventoryMode.FREE_POOL,
        True,
        ("SSH_AUTH_SOCK",),
    )
    assert found.hooks == {
        HookKind.CONFIGURE: "/etc/bf/ssh/configure",
        HookKind.DRAIN: "/etc/bf/ssh/drain",
        HookKind.PROBE: "/opt/probe",
    }
    assert found.clusters == {"prod-eu": "/etc/bf/prod-eu.kubeconfig", "dev": "/etc/bf/dev.kubeconfig"}
    assert (entry.ref, dict(entry.vars)) == ("10.7.12.7", {"bmc": "10.8.12.7"})
    assert entry.shape.capacity_type is CapacityType.BARE_METAL
    assert dict(entry.shape.allocatable) == {"cpu": "94", "memory": "370Gi"}
    assert found.slot(entry).first_state is MachineState.IDLE


def test_with_create_and_delete_hooks_machines_begin_speculative_and_keep_their_ref_for_the_hook() -> None:
    found = read(inventory(["m-1"], POWER_MANAGED))
    assert found.mode is InventoryMode.POWER_MANAGED
    assert found.slot(found.entries["m-1"]).first_state is MachineState.SPECULATIVE
    assert found.entries["m-1"].ref == "host-m-1"


def test_json_says_the_same_as_yaml() -> None:
    machine = {"id": "m", "ref": "h", "instance_type": "a", "zone": "z", "capacity_type": "spot"}
    document = {
        "hooks": {"configure": "c", "drain": "d"},
        "machines": [{**machine, "interruption_probability": 0.1}],
    }
    found = read(json.dumps(document), "/etc/bf/a.json")
    assert found.entries["m"].shape.interruption_probability == 0.1
    assert found.hooks[HookKind.DRAIN] == "/etc/bf/d"


def test_a_table_gives_machines_and_a_dot_in_a_column_leads_into_a_map() -> None:
    table = (
        "id,ref,instance_type,zone,capacity_type,price_per_hour,resources.cpu,labels.topology.bigfleet/rack,vars.bmc\n"
        "m-1,10.0.0.1,gen11,hall-7,on-demand,0.25,96,r12,10.8.0.1\n"
        "m-2,10.0.0.2,gen11,hall-7,on-demand,,96,,\n"
    )
    hooks = b"hooks: {configure: c, drain: d}"
    found = read_inventory([("/a.yaml", hooks), ("/b.csv", table.encode())], SETS)
    first, second = found.entries["m-1"], found.entries["m-2"]
    assert dict(first.shape.labels) == {"topology.bigfleet/rack": "r12"}
    assert (first.shape.price_per_hour, dict(first.vars)) == (0.25, {"bmc": "10.8.0.1"})
    assert (second.shape.price_per_hour, dict(second.shape.labels)) == (0.0, {})


def test_machines_of_one_kind_share_one_shape() -> None:
    found = read(inventory([f"m-{number}" for number in range(50)]))
    assert len({id(entry.shape) for entry in found.entries.values()}) == 1


def test_bundled_sets_can_be_combined_and_a_hook_of_ones_own_wins() -> None:
    text = inventory(["m-1"], ()).replace("hooks: {}", "hook_set: [ssh, ipmi]\nhooks: {drain: ./mine}")
    assert read(text).hooks == {**SETS["ssh"], **SETS["ipmi"], HookKind.DRAIN: "/etc/bf/mine"}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "the file: found None, allowed is a mapping with some of name"),
        ("- a", "the file: found a list, allowed is a mapping with some of name"),
        ("name: [", "allowed is YAML, JSON or CSV by the file's ending"),
        ("name: a\nname: b", "key name is given twice"),
        ("nome: a", "nome: unknown key, allowed is one of name, clusters"),
        ("name: ''", "name: found '', allowed is a text that is not empty"),
        ("name: 7", "name: found 7, allowed is a text; put numbers into quotes"),
        ("hooks: [a]", "hooks: found a list, allowed is a mapping from kind to path"),
        ("hooks: {cofigure: a}", "hooks.cofigure: unknown key, allowed is one of create, configure"),
        ("hooks: {configure: ''}", "hooks.configure: found '', allowed is the path of an executable file"),
        ("hook_set: aws", "hook_set: found 'aws', allowed is one or more of ssh, ipmi"),
        ("clusters: {a: b}", "clusters[a]: found 'b', allowed is {kubeconfig: path}"),
        ("clusters: {a: {kubeconfig: b, c: d}}", "clusters[a]: found a mapping, allowed is {kubeconfig: path}"),
        ("clusters: a", "clusters: found 'a', allowed is a mapping from cluster"),
        ("pass_env: PATH", "pass_env: found 'PATH', allowed is a list of variable names"),
        ("pass_env: [BF_BLOB_FILE]", "pass_env[0]: found 'BF_BLOB_FILE', allowed is the name of a variable"),
        ("resume: 1", "resume: found 1, allowed is true or false"),
        ("machines: a", "machines: found 'a', allowed is a list"),
        ("machines: [a]", "machines[0]: found 'a', allowed is a mapping"),
        ("machines: [{zone: a}]", "machines[0].id: missing, allowed is a text that is not empty"),
        ("machines: [{id: ''}]", "machines[0].id: found '', allowed is a text that is not empty"),
        ("machines: [{id: 12}]", "machines[0].id: found 12, allowed is a text; put numbers into quotes"),
        ("machines: [{id: a, zon: b}]", "machines[0].zon: unknown key, allowed is one of id, ref"),
        ("machines: [{id: a}]", "machines[0].capacity_type: missing, allowed is one of bare-metal, reserved"),
        ("machines: [{id: a, capacity_type: BareMetal}]", "capacity_type: found 'BareMetal', allowed is one of"),
        ("machines: [{id: a, price_per_hour: cheap}]", "price_per_hour: found 'cheap', allowed is a number"),
        ("machines: [{id: a, resources: {cpu: 0.5}}]", "machines[0].resources[cpu]: found 0.5, allowed is a text"),
        ("machines: [{id: a, labels: [b]}]", "machines[0].labels: found a list, allowed is a mapping of texts"),
        ("machines: [{id: a, vars: {1: b}}]", "machines[0].vars[1]: found 1, allowed is a key that is a text"),
    ],
)  # fmt: skip
def test_a_fault_is_reported_with_file_path_and_what_is_allowed(text: str, fault: str) -> None:
    found = faults(text)
    assert all(line.startswith("/etc/bf/a.yaml: ") for line in found)
    assert any(fault in line for line in found), found


def test_all_faults_of_all_files_are_reported_at_once() -> None:
    with pytest.raises(InventoryError) as caught:
        read_inventory([("/a.yaml", b"nome: a\nresume: 3"), ("/b.csv", b"id,zone\nm\n")], SETS)
    assert len(caught.value.faults) == 3
    assert caught.value.faults[2].startswith("/b.csv: line 2 has more or fewer cells")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (inventory(["m"], ("configure",)), "hooks.drain: missing, allowed is the path of an executable file"),
        (inventory(["m"], ("create", *("configure", "drain"))), "hooks: found one of create and delete"),
        (inventory([]), "machines: found none, allowed is at least one machine or a discover hook"),
        (inventory(["m"]).replace("ref: host-m, ", ""), "machine m: ref: missing, allowed is a host"),
        (inventory(["m"]).replace("zone: hall-7", "zone: ''"), "machine m: zone: found ''"),
        (inventory(["m"]).replace("0.5", "-1"), "machine m: price_per_hour: found -1.0"),
        (inventory(["m"]).replace('"8"', '"eight"'), "machine m: resources"),
        (inventory(["m"]) + machine_line("n", ", labels: {zone: b}"), "machine n: labels[zone]: found 'b'"),
        (inventory(["m", "m"]), "machines[1].id: found 'm', allowed is an id that no other machine has"),
    ],
)
def test_rules_between_the_parts_hold(text: str, fault: str) -> None:
    assert any(fault in line for line in faults(text)), faults(text)


def test_a_thing_that_holds_for_all_files_is_said_in_one_of_them() -> None:
    files = [("/a.yaml", inventory(["m-1"]).encode()), ("/b.yaml", b"name: hall-8")]
    with pytest.raises(InventoryError, match=r"/b.yaml: name: given here and in /a.yaml"):
        read_inventory(files, SETS)


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(InventoryError, match="allowed is UTF-8 text"):
        read_inventory([("/a.yaml", b"\xff\xfe")], SETS)


def test_a_json_key_given_twice_is_refused() -> None:
    assert "key name is given twice" in faults('{"name": "a", "name": "b"}', "/a.json")[0]


def test_only_machines_can_be_discovered() -> None:
    machine = {"id": "m", "ref": "h", "instance_type": "a", "zone": "z", "capacity_type": "reserved"}
    assert list(read_discovered(json.dumps({"machines": [machine]}).encode(), "hook")) == ["m"]
    for output, fault in [
        (b'{"machines": [], "hooks": {}}', "hooks: unknown key"),
        (b"", "Expecting value"),
        (b"{}", "machines: found None, allowed is a list"),
    ]:
        with pytest.raises(InventoryError) as caught:
            read_discovered(output, "output of /x")
        assert fault in str(caught.value)


def test_what_records_were_made_with_cannot_change_while_the_provider_runs() -> None:
    before = read(inventory(["m-1"]))
    assert changes_refused(before, read(inventory(["m-2"]))) == []
    other_name = read(inventory(["m-1"]).replace("name: hall-7", "name: hall-8"))
    assert changes_refused(before, other_name) == [
        "name: found 'hall-8', allowed is 'hall-7' until the provider is restarted"
    ]
    assert (
        "mode: found 'power-managed'" in changes_refused(before, read(inventory(["m-1"], POWER_MANAGED)))[0]
    )
    assert changes_refused(before, read(inventory(["m-1"], more="resume: false\n"))) == []


def test_power_managed_machines_that_a_shard_would_never_give_back_are_warned_about() -> None:
    text = inventory(["m-1"], (*POWER_MANAGED, "ready")).replace("on-demand", "bare-metal")
    (warning,) = warnings_of(read(text))
    assert "1 machines are bare-metal or reserved (first m-1)" in warning
    assert warnings_of(read(text.replace("bare-metal", "on-demand"))) == []


def test_a_provider_that_cannot_see_readiness_is_warned_about() -> None:
    (warning,) = warnings_of(read(inventory(["m-1"])))
    assert "exit code 0 of configure counts as Ready" in warning
    assert warnings_of(read(inventory(["m-1"], ("configure", "drain", "ready")))) == []
    assert warnings_of(read(inventory(["m-1"], more="clusters: {prod: {kubeconfig: k}}\n"))) == []


WORDS = st.sampled_from(
    [
        "id",
        "ref",
        "zone",
        "hooks",
        "machines",
        "vars",
        "labels",
        "resources",
        "capacity_type",
        "price_per_hour",
        "name",
        "clusters",
        "kubeconfig",
        "pass_env",
        "hook_set",
        "resume",
        "configure",
        "drain",
        "spot",
        "message",
    ]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | WORDS
# Any text: also one that no file system and no protobuf would take.
ODD = st.sampled_from(["\ud800", "\x00", "10" * 20, "1e999"])
VALUES = st.recursive(
    SCALARS | ODD,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.dictionaries(WORDS, VALUES, max_size=6))
def test_whatever_a_file_holds_it_is_an_inventory_or_is_refused_with_its_faults(
    document: dict[str, object],
) -> None:
    texts = [("/a.json", json.dumps(document)), ("/a.yaml", yaml.safe_dump(document))]
    for path, text in texts:
        with suppress(InventoryError):
            found = read_inventory([(path, text.encode("utf-8", "surrogatepass"))], SETS)
            assert set(found.hooks) >= {HookKind.CONFIGURE, HookKind.DRAIN}


@given(st.binary(max_size=60) | VALUES.map(lambda value: json.dumps(value).encode()))
def test_whatever_a_hook_prints_it_is_read_or_refused(output: bytes) -> None:
    with suppress(HookOutputError):
        assert isinstance(read_output(output), HookOutput)


def test_a_file_nested_without_end_is_refused() -> None:
    for path, text in (("/a.json", '{"name":' * 100_000), ("/a.yaml", "[" * 1_500)):
        with pytest.raises(InventoryError):
            read(text, path)


def test_half_a_character_is_refused_with_its_path() -> None:
    machine = {"id": "m", "ref": "h", "instance_type": "a", "zone": "\ud800", "capacity_type": "reserved"}
    document = {
        "hooks": {"configure": "c", "drain": "d"},
        "machines": [{**machine, "labels": {"a": "\udfff"}}],
    }
    zone, label = faults(json.dumps(document), "/a.json")
    assert zone.startswith("/a.json: machines[0].zone: found ")
    assert label.startswith("/a.json: machines[0].labels[a]: found ")
