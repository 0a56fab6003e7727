"""The chart `bigfleet` renders what `packaging#coordinator-objects`, `packaging#shard-objects`,
`packaging#chart-values`, `packaging#network-policy` and `coordinator#chart` ask for."""

import base64
from typing import Any

import pytest
import yaml

from tests.charts.rendering import (
    CHARTS,
    CONTROL_PLANE,
    MATRIX,
    SECRET,
    helm_binary,
    merged,
    nested,
    render,
    template,
)

pytestmark = pytest.mark.integration

PRODUCTION = MATRIX["production"][1]
TLS = {"coordinator": {"tls": {"secretName": "c"}}, "shard": {"tls": {"secretName": "s"}}}


@pytest.fixture(autouse=True)
def _helm() -> None:
    helm_binary()


def with_(values: dict[str, Any]) -> dict[str, Any]:
    return merged(SECRET, values)


@pytest.mark.rule("coordinator#chart")
def test_the_coordinator_forms_by_itself() -> None:
    rendered = render(CONTROL_PLANE, SECRET)
    service = rendered.one("Service", "bigfleet-coordinator")["spec"]
    assert (service["clusterIP"], service["publishNotReadyAddresses"]) == ("None", True)
    assert {port["name"]: port["port"] for port in service["ports"]} == {
        "grpc": 7790,
        "raft": 7791,
        "metrics": 8790,
    }
    chosen = rendered.one("StatefulSet", "bigfleet-coordinator")["spec"]
    assert (chosen["podManagementPolicy"], chosen["replicas"]) == ("Parallel", 3)
    assert chosen["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}
    (claim,) = chosen["volumeClaimTemplates"]
    assert (claim["metadata"]["name"], claim["spec"]["resources"]["requests"]["storage"]) == ("data", "10Gi")
    flags = rendered.flags("StatefulSet", "bigfleet-coordinator")
    assert flags == {
        "id": "$(POD_NAME)",
        "listen": ":7790",
        "raft-bind": ":7791",
        "raft-advertise": "$(POD_NAME).bigfleet-coordinator.fleet.svc:7791",
        "metrics-addr": ":8790",
        "join-addr": "bigfleet-coordinator.fleet.svc:7790",
        "data-dir": "/var/lib/bigfleet",
        "bootstrap": "true",
        "replicas": "3",
        "raft-secret-file": "/etc/bigfleet/raft/secret",
        "shutdown-grace": "5s",
        "log-format": "json",
        "log-level": "info",
        "tls-cert": "/etc/bigfleet/tls/tls.crt",
        "tls-key": "/etc/bigfleet/tls/tls.key",
        "tls-ca": "/etc/bigfleet/tls/ca.crt",
    }


@pytest.mark.rule("coordinator#chart")
@pytest.mark.parametrize("values", [{}, TLS, {"insecure": True}], ids=["tls", "own tls", "plaintext"])
def test_probes_are_http_also_under_tls(values: dict[str, Any]) -> None:
    rendered = render(CONTROL_PLANE, with_(values))
    for name in ("bigfleet-coordinator", "bigfleet-shard"):
        container = rendered.container("StatefulSet", name)
        assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "metrics"}
        assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "metrics"}
        assert container["startupProbe"]["failureThreshold"] == 60
        assert (
            container["livenessProbe"]["periodSeconds"],
            container["readinessProbe"]["periodSeconds"],
        ) == (10, 5)


@pytest.mark.rule("packaging#coordinator-objects", "packaging#shard-objects", "coordinator#chart")
def test_budgets_keep_a_majority_and_all_shards_but_one() -> None:
    three = render(CONTROL_PLANE, SECRET)
    assert three.one("PodDisruptionBudget", "bigfleet-coordinator")["spec"]["minAvailable"] == 2
    assert three.one("PodDisruptionBudget", "bigfleet-shard")["spec"]["maxUnavailable"] == 1
    one = render(CONTROL_PLANE, with_(nested("coordinator.replicas", 1)))
    assert [budget["metadata"]["name"] for budget in one.all("PodDisruptionBudget")] == ["bigfleet-shard"]


def selector(component: str) -> dict[str, Any]:
    labels = {"name": "bigfleet", "instance": "demo", "component": component}
    return {
        "podSelector": {"matchLabels": {f"app.kubernetes.io/{key}": value for key, value in labels.items()}}
    }


def ingress(policy: dict[str, Any]) -> dict[int, Any]:
    rules = policy["spec"]["ingress"] or []
    return {rule["ports"][0]["port"]: rule.get("from", "anybody") for rule in rules}


HERE: dict[str, Any] = {"podSelector": {}}  # pods of the release's namespace


@pytest.mark.rule("packaging#network-policy", "coordinator#chart")
def test_the_raft_port_is_open_to_replicas_only() -> None:
    rendered = render(CONTROL_PLANE, SECRET)
    assert ingress(rendered.one("NetworkPolicy", "bigfleet-coordinator")) == {
        7790: [selector("coordinator"), selector("shard"), selector("dashboard"), selector("test"), HERE],
        7791: [selector("coordinator")],
        8790: [HERE, selector("test")],
    }
    for policy in rendered.all("NetworkPolicy"):
        assert policy["spec"]["policyTypes"] == ["Ingress"]


@pytest.mark.rule("packaging#network-policy")
def test_by_default_no_port_is_open_beyond_the_namespace() -> None:
    rendered = render(CONTROL_PLANE, with_(nested("dashboard.enabled", True)))
    own = [selector("test"), selector("dashboard")]
    assert ingress(rendered.one("NetworkPolicy", "bigfleet-shard")) == {
        7780: [HERE, *own],
        8780: [HERE, *own],
    }
    assert ingress(rendered.one("NetworkPolicy", "bigfleet-dashboard")) == {8760: [HERE]}
    every = rendered.one("NetworkPolicy", "bigfleet")["spec"]
    labels = {"app.kubernetes.io/name": "bigfleet", "app.kubernetes.io/instance": "demo"}
    assert every == {"podSelector": {"matchLabels": labels}, "policyTypes": ["Ingress"]}
    for _, pod in rendered.pods():
        assert labels.items() <= pod["metadata"]["labels"].items(), "else it would escape the policy"


@pytest.mark.rule("packaging#network-policy")
def test_only_what_is_exposed_on_purpose_is_open_to_every_address() -> None:
    exposed = with_(
        {
            "shard": {"external": {"enabled": True}},
            "dashboard": {"enabled": True, "ingress": {"enabled": True, "tlsSecretName": "t"}},
        }
    )
    for narrowed, peers in (({}, "anybody"), ({"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}, None)):
        more = {"dashboard": narrowed, "networkPolicy": {"operatorFrom": narrowed.get("from", [])}}
        rendered = render(CONTROL_PLANE, merged(exposed, more))
        shard = ingress(rendered.one("NetworkPolicy", "bigfleet-shard"))
        dashboard = ingress(rendered.one("NetworkPolicy", "bigfleet-dashboard"))
        given = narrowed.get("from", [])
        assert shard[7780] == (peers or [*given, selector("test"), selector("dashboard")])
        assert dashboard[8760] == (peers or given)
        assert shard[8780] == [HERE, selector("test"), selector("dashboard")], (
            "metrics are not exposed with it"
        )


@pytest.mark.rule("packaging#network-policy")
def test_an_empty_list_of_scrapers_opens_no_port() -> None:
    rendered = render(CONTROL_PLANE, with_(nested("networkPolicy.metricsFrom", [])))
    assert ingress(rendered.one("NetworkPolicy", "bigfleet-shard"))[8780] == [selector("test")]


@pytest.mark.rule("packaging#network-policy")
def test_policies_follow_their_values() -> None:
    rendered = render(CONTROL_PLANE, PRODUCTION)
    monitoring = PRODUCTION["networkPolicy"]["metricsFrom"]
    scrapers = [*monitoring, selector("test"), selector("dashboard")]
    assert ingress(rendered.one("NetworkPolicy", "bigfleet-coordinator"))[8790] == scrapers
    assert ingress(rendered.one("NetworkPolicy", "bigfleet-shard"))[8780] == scrapers
    narrow = render(
        CONTROL_PLANE,
        with_({"dashboard": {"enabled": True}, "networkPolicy": {"operatorFrom": [{"podSelector": {}}]}}),
    )
    assert ingress(narrow.one("NetworkPolicy", "bigfleet-shard"))[7780] == [
        {"podSelector": {}},
        selector("test"),
        selector("dashboard"),
    ]
    egress = rendered.one("NetworkPolicy", "bigfleet-coordinator")["spec"]["egress"]
    assert egress[1] == {
        "to": [selector("coordinator")],
        "ports": [{"port": 7790, "protocol": "TCP"}, {"port": 7791, "protocol": "TCP"}],
    }
    shard = rendered.one("NetworkPolicy", "bigfleet-shard")["spec"]["egress"]
    assert shard[1:] == [
        {"to": [selector("coordinator")], "ports": [{"port": 7790, "protocol": "TCP"}]},
        {"ports": [{"port": 9000, "protocol": "TCP"}]},
    ]
    off = render(CONTROL_PLANE, with_(nested("networkPolicy.enabled", False)))
    assert "NetworkPolicy" not in off.kinds()


@pytest.mark.rule("packaging#external-services")
def test_one_external_service_per_ordinal() -> None:
    rendered = render(CONTROL_PLANE, PRODUCTION)
    for ordinal in range(3):
        service = rendered.one("Service", f"bigfleet-shard-{ordinal}-external")["spec"]
        assert service["type"] == "LoadBalancer"
        assert service["selector"]["statefulset.kubernetes.io/pod-name"] == f"bigfleet-shard-{ordinal}"
    assert "advertise-addr" not in rendered.flags("StatefulSet", "bigfleet-shard")
    files = rendered.one("ConfigMap", "bigfleet-shard-config")["data"]
    assert {name: yaml.safe_load(text) for name, text in files.items()} == {
        f"bigfleet-shard-{ordinal}.yaml": {
            "provider-addr": f"provider-{'abc'[ordinal]}.providers.svc:9000",
            "advertise-addr": f"shard-{ordinal}.fleet.example.org:7780",
        }
        for ordinal in range(3)
    }
    assert rendered.flags("StatefulSet", "bigfleet-shard")["config"] == "/etc/bigfleet/shard/$(POD_NAME).yaml"


@pytest.mark.rule("packaging#config-checksum")
def test_changed_files_restart_the_shards() -> None:
    def mark(values: dict[str, Any]) -> str:
        pod = render(CONTROL_PLANE, values).one("StatefulSet", "bigfleet-shard")["spec"]["template"]
        return str(pod["metadata"]["annotations"]["checksum/config"])

    other = merged(PRODUCTION, nested("shard.providerAddrs", ["x:1", "y:1", "z:1"]))
    assert mark(PRODUCTION) != mark(other)


@pytest.mark.rule("packaging#shard-certificates")
def test_certificates_come_one_per_ordinal() -> None:
    pattern = render(
        CONTROL_PLANE,
        with_(
            {
                "coordinator": {"tls": {"secretName": "c"}},
                "shard": {"replicas": 2, "tls": {"secretNamePattern": "tls-%d"}},
            }
        ),
    )
    flags = pattern.flags("StatefulSet", "bigfleet-shard")
    assert flags["tls-cert"] == "/etc/bigfleet/tls/$(POD_NAME)/tls.crt"
    volumes = pattern.one("StatefulSet", "bigfleet-shard")["spec"]["template"]["spec"]["volumes"]
    (tls,) = (volume["projected"] for volume in volumes if volume["name"] == "tls")
    assert [source["secret"]["name"] for source in tls["sources"]] == ["tls-0", "tls-1"]
    assert tls["sources"][1]["secret"]["items"][0] == {"key": "tls.crt", "path": "bigfleet-shard-1/tls.crt"}
    assert tls["defaultMode"] == 0o440

    csi = render(*MATRIX["csi"])
    assert csi.flags("StatefulSet", "bigfleet-shard")["tls-cert"] == "/etc/bigfleet/tls/tls.crt"
    volumes = csi.one("StatefulSet", "bigfleet-shard")["spec"]["template"]["spec"]["volumes"]
    (driver,) = (volume["csi"] for volume in volumes if volume["name"] == "tls")
    assert driver["volumeAttributes"]["csi.cert-manager.io/uri-names"] == "bigfleet://shard/${POD_NAME}"


def test_cert_manager_is_asked_for_one_identity_each() -> None:
    rendered = render(CONTROL_PLANE, PRODUCTION)
    found = {thing["metadata"]["name"]: thing["spec"] for thing in rendered.all("Certificate")}
    assert {name: spec["uris"] for name, spec in found.items()} == {
        "bigfleet-coordinator": ["bigfleet://admin"],
        "bigfleet-dashboard": ["bigfleet://readonly"],
        **{f"bigfleet-shard-{n}": [f"bigfleet://shard/bigfleet-shard-{n}"] for n in range(3)},
    }
    assert found["bigfleet-coordinator"]["dnsNames"] == [
        "bigfleet-coordinator.fleet.svc",
        "*.bigfleet-coordinator.fleet.svc",
    ]
    assert found["bigfleet-shard-1"]["dnsNames"] == [
        "bigfleet-shard-1.bigfleet-shard-headless.fleet.svc",
        "bigfleet-shard.fleet.svc",
        "shard-1.fleet.example.org",
    ]
    for spec in found.values():
        assert {"server auth", "client auth"} <= set(spec["usages"])
        assert spec["issuerRef"] == {"name": "bigfleet-ca", "kind": "Issuer", "group": "cert-manager.io"}
    mounted = {
        volume["secret"]["secretName"]
        for _, pod in rendered.pods()
        for volume in pod["spec"]["volumes"]
        if volume["name"] == "tls" and "secret" in volume
    }
    assert mounted <= {spec["secretName"] for spec in found.values()}


def test_shards_without_a_coordinator_report_to_nobody() -> None:
    alone = render(CONTROL_PLANE, nested("coordinator.enabled", False))
    assert "bigfleet-raft" not in [name for _, _, name in alone.names()]
    assert "coordinator-addr" not in alone.flags("StatefulSet", "bigfleet-shard")
    split = render(*MATRIX["shards only"])
    assert split.flags("StatefulSet", "bigfleet-shard")["coordinator-addr"] == "coordinator.elsewhere:7790"


@pytest.mark.rule("packaging#raft-secret")
def test_the_raft_secret_is_random_kept_or_none() -> None:
    made = render(CONTROL_PLANE).one("Secret", "bigfleet-raft")
    assert made["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert len(base64.b64decode(made["data"]["secret"])) >= 32
    again = yaml.safe_load_all(template(CONTROL_PLANE).stdout)
    assert made["data"] not in [thing["data"] for thing in again if thing and thing["kind"] == "Secret"]
    assert "Secret" not in render(CONTROL_PLANE, SECRET).kinds()


@pytest.mark.parametrize(
    ("hostname", "zone", "kinds"),
    [
        ("required", "preferred", ("requiredDuringSchedulingIgnoredDuringExecution", "ScheduleAnyway")),
        ("preferred", "required", ("preferredDuringSchedulingIgnoredDuringExecution", "DoNotSchedule")),
        ("none", "none", (None, None)),
    ],
)
def test_replicas_keep_apart_as_told(hostname: str, zone: str, kinds: tuple[str | None, str | None]) -> None:
    rendered = render(
        CONTROL_PLANE, with_(nested("coordinator.spread", {"hostname": hostname, "zone": zone}))
    )
    spec = rendered.one("StatefulSet", "bigfleet-coordinator")["spec"]["template"]["spec"]
    anti = list(spec.get("affinity", {}).get("podAntiAffinity", {}))
    zones = [rule["whenUnsatisfiable"] for rule in spec.get("topologySpreadConstraints", ())]
    assert (anti, zones) == ([kinds[0]] if kinds[0] else [], [kinds[1]] if kinds[1] else [])


def test_exports_go_to_their_volume_or_beside_the_data() -> None:
    elsewhere = render(CONTROL_PLANE, PRODUCTION)
    mounts = elsewhere.container("StatefulSet", "bigfleet-coordinator")["volumeMounts"]
    assert {"name": "exports", "mountPath": "/var/lib/bigfleet-exports"} in mounts
    beside = render(CONTROL_PLANE, with_(nested("coordinator.snapshotExport.enabled", True)))
    mounts = beside.container("StatefulSet", "bigfleet-coordinator")["volumeMounts"]
    assert {"name": "data", "mountPath": "/var/lib/bigfleet-exports", "subPath": "exports"} in mounts


def test_monitors_set_the_two_labels_that_rules_rely_on() -> None:
    rendered = render(CONTROL_PLANE, merged(PRODUCTION, {"podMonitor": {"labels": {"team": "platform"}}}))
    monitors = {thing["metadata"]["name"]: thing for thing in rendered.all("PodMonitor")}
    assert monitors.keys() == {"bigfleet-coordinator", "bigfleet-shard"}
    for name, monitor in monitors.items():
        assert monitor["metadata"]["labels"]["team"] == "platform"
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        told = {rule["targetLabel"]: rule.get("replacement") for rule in endpoint["relabelings"]}
        assert told == {"component": name.removeprefix("bigfleet-"), "pod": None}


def test_the_dashboard_reads_and_nothing_more() -> None:
    rendered = render(CONTROL_PLANE, PRODUCTION)
    flags = rendered.flags("Deployment", "bigfleet-dashboard")
    assert flags["coordinator-addr"] == "bigfleet-coordinator.fleet.svc:7790"
    assert flags["token-file"] == "/etc/bigfleet/token/token"
    alone = render(
        CONTROL_PLANE,
        {"coordinator": {"enabled": False}, "shard": {"replicas": 2}, "dashboard": {"enabled": True}},
    )
    arguments = alone.container("Deployment", "bigfleet-dashboard")["args"]
    shards = [argument for argument in arguments if argument.startswith("--shard-addr=")]
    assert shards == [
        f"--shard-addr=bigfleet-shard-{n}.bigfleet-shard-headless.fleet.svc:7780" for n in (0, 1)
    ]


def alerts(values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    groups = render(CONTROL_PLANE, values).one("PrometheusRule", "bigfleet")["spec"]["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


@pytest.mark.rule("packaging#copies-equal")
def test_the_rendered_rules_are_those_of_deploy() -> None:
    source = yaml.safe_load((CHARTS.parent / "deploy/prometheus/rules.yaml").read_text(encoding="utf-8"))
    known = {rule["alert"]: rule for group in source["groups"] for rule in group["rules"]}
    base = {"prometheusRule": {"runbookBaseUrl": "https://wiki.example.org/bigfleet/"}}
    rendered = alerts(merged(PRODUCTION, base))
    elsewhere = {"bigfleet-operator", "bigfleet-pod-controller"}
    here = {
        rule["alert"]
        for group in source["groups"]
        if group["name"] not in elsewhere
        for rule in group["rules"]
    }
    assert rendered.keys() == here
    for name, rule in rendered.items():
        short = name.removeprefix("BigFleet")
        assert rule["annotations"].pop("runbook_url") == f"https://wiki.example.org/bigfleet/{short}/"
        known[name]["annotations"].pop("runbook_url")
        assert rule == known[name]


def test_rules_follow_what_is_installed_and_can_be_left_out() -> None:
    on = {"prometheusRule": {"enabled": True, "disabled": ["BigFleetShortfall"]}}
    shards = alerts(merged({"coordinator": {"enabled": False}}, on))
    assert "BigFleetShardDown" in shards
    assert "BigFleetShortfall" not in shards
    assert not [name for name in shards if "Coordinator" in name], "no coordinator, none missed"
    assert "BigFleetCoordinatorExportStale" not in alerts(with_(on)), "exports are off"
    plain = alerts(with_(merged(on, {"insecure": True})))
    assert "BigFleetCertificateExpiring" not in plain, "no certificates"
    assert "BigFleetCertificateExpiring" in alerts(with_(on))
