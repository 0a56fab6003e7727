"""Values that cannot work are refused before anything is installed, in words that name the value and what is allowed."""

from typing import Any

import pytest

from tests.charts.rendering import CONTROL_PLANE, OPERATOR, POD_CONTROLLER, helm_binary, nested, refusal

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def _helm() -> None:
    helm_binary()


CASES: list[tuple[str, str, dict[str, Any], str]] = [
    ("two coordinators", CONTROL_PLANE, nested("coordinator.replicas", 2), "/coordinator/replicas': value must be one of 1, 3"),
    ("unknown key", CONTROL_PLANE, nested("coordinator.replica", 3), "at '/coordinator': additional properties 'replica' not allowed"),
    ("unknown key at the top", OPERATOR, {"clusterId": "x"}, "additional properties 'clusterId' not allowed"),
    ("wrong type", CONTROL_PLANE, nested("shard.replicas", "many"), "/shard/replicas': got string, want integer"),
    ("port 0", CONTROL_PLANE, nested("shard.service.grpcPort", 0), "/shard/service/grpcPort': minimum: got 0, want 1"),
    ("no shard", CONTROL_PLANE, nested("shard.replicas", 0), "/shard/replicas': minimum: got 0, want 1"),
    ("a share above one", CONTROL_PLANE, nested("shard.reclaimCapFraction", 5), "/shard/reclaimCapFraction': maximum: got 5, want 1"),
    ("another pull policy", POD_CONTROLLER, nested("image.pullPolicy", "Sometimes"), "/image/pullPolicy': value must be one of"),
    ("a penalty that is no number", POD_CONTROLLER, {"priorityClassDefaults": {"a": {"interruptionPenalty": "much"}}}, "/priorityClassDefaults/a/interruptionPenalty"),
    (
        "negative interval",
        CONTROL_PLANE,
        nested("shard.cycleInterval", "-5s"),
        'shard.cycleInterval: found "-5s", allowed is a duration such as 100ms, 10s, 5m, 1h30m or 0',
    ),
    (
        "interval without a unit",
        OPERATOR,
        {"rollupInterval": "10"},
        'rollupInterval: found "10", allowed is a duration such as 100ms, 10s, 5m, 1h30m or 0',
    ),
    (
        "one certificate for two shards",
        CONTROL_PLANE,
        {"shard": {"replicas": 2, "tls": {"secretName": "one"}}, "coordinator": {"tls": {"secretName": "c"}}},
        'shard.tls.secretName: found "one" with shard.replicas 2, allowed is one shard only, as a certificate names its shard',
    ),
    (
        "certificates on one side only",
        CONTROL_PLANE,
        nested("coordinator.tls.secretName", "c"),
        "shard.tls.secretName, shard.tls.secretNamePattern, shard.tls.csi.enabled: missing with coordinator.tls.secretName, allowed is a "
        "Secret for every part once one is named",
    ),
    (
        "certificates for all but the dashboard",
        CONTROL_PLANE,
        {"coordinator": {"tls": {"secretName": "c"}}, "shard": {"tls": {"secretName": "s"}}, "dashboard": {"enabled": True}},
        "dashboard.tls.secretName: missing with coordinator.tls.secretName",
    ),
    (
        "certificates of two authorities",
        CONTROL_PLANE,
        {"certManager": {"enabled": True}, "coordinator": {"tls": {"secretName": "c"}}},
        "certManager.issuerRef.name: missing with coordinator.tls.secretName, allowed is the issuer whose authority signed that Secret",
    ),
    (
        "plaintext with a certificate",
        CONTROL_PLANE,
        {"insecure": True, "coordinator": {"tls": {"secretName": "c"}}},
        "insecure: found true with coordinator.tls.secretName, allowed is one of them",
    ),
    (
        "plaintext with cert-manager",
        CONTROL_PLANE,
        {"insecure": True, "certManager": {"enabled": True}},
        "insecure: found true with certManager.enabled, allowed is one of them",
    ),
    (
        "plaintext with operators' certificates",
        CONTROL_PLANE,
        {"insecure": True, "certificates": {"clusters": ["prod-1"]}},
        "insecure: found true with certificates, allowed is one of them",
    ),
    (
        "a coordinator that does not know the authority",
        CONTROL_PLANE,
        {"coordinator": {"enabled": False}, "shard": {"coordinatorAddress": "c:7790"}},
        "shard.coordinatorAddress: found with an authority that this release makes and a coordinator elsewhere does not know",
    ),
    (
        "a role of nobody's",
        CONTROL_PLANE,
        nested("rbac.create", False),
        "rbac.create: found false, allowed is with serviceAccount.create false and serviceAccount.name",
    ),
    (
        "operators' certificates with Secrets of one's own",
        CONTROL_PLANE,
        {"coordinator": {"tls": {"secretName": "c"}}, "shard": {"tls": {"secretName": "s"}}, "certificates": {"clusters": ["prod-1"]}},
        "certificates.clusters, certificates.further: found with coordinator.tls.secretName, allowed is without",
    ),
    (
        "two authorities named",
        CONTROL_PLANE,
        {"certManager": {"issuerRef": {"name": "i"}}, "certificates": {"authoritySecret": "a"}},
        "certificates.authoritySecret: found with certManager.issuerRef.name, allowed is one of them",
    ),
    (
        "a cluster whose id is no name",
        CONTROL_PLANE,
        nested("certificates.clusters", ["Prod_1"]),
        'certificates.clusters[0]: found "Prod_1", allowed are ids that can be part of a Secret\'s name',
    ),
    (
        "a certificate without an identity",
        CONTROL_PLANE,
        nested("certificates.further", [{"secret": "a", "uri": "bigfleet://root"}]),
        'certificates.further[0].uri: found "bigfleet://root", allowed is bigfleet://cluster/ID',
    ),
    (
        "an unknown key of a certificate",
        CONTROL_PLANE,
        nested("certificates.further", [{"secret": "a", "uri": "bigfleet://admin", "dns": []}]),
        "additional properties 'dns' not allowed",
    ),
    (
        "certificates that are renewed for ever",
        CONTROL_PLANE,
        {"certificates": {"days": 30}},
        "certificates.renewBeforeDays: found 30, allowed is less than certificates.days, 30",
    ),
    (
        "another way of certificates",
        CONTROL_PLANE,
        nested("certManager.enabled", "yes"),
        "/certManager/enabled': value must be one of 'auto', true, false",
    ),
    (
        "an operator without a certificate",
        OPERATOR,
        {"tls": {"secretName": ""}},
        "tls.secretName: missing, allowed is the Secret with the certificate of this cluster, bigfleet://cluster/prod-1",
    ),
    ("an operator with one that it must not use", OPERATOR, {"insecure": True}, 'insecure: found true with tls.secretName "bigfleet-operator-tls"'),
    (
        "a pattern without a place",
        CONTROL_PLANE,
        {"shard": {"tls": {"secretNamePattern": "shard-tls"}}, "coordinator": {"tls": {"secretName": "c"}}},
        'shard.tls.secretNamePattern: found "shard-tls", allowed is a text with %d once',
    ),
    (
        "too few providers",
        CONTROL_PLANE,
        {"shard": {"replicas": 3, "providerAddrs": ["a:1"]}},
        "shard.providerAddrs: found 1, allowed are as many as shard.replicas, 3",
    ),
    (
        "a provider without a port",
        CONTROL_PLANE,
        nested("shard.provider.addr", "provider"),
        'shard.provider.addr: found "provider", allowed is host:port or [ipv6]:port',
    ),
    (
        "an Ingress without TLS",
        CONTROL_PLANE,
        {"dashboard": {"enabled": True, "ingress": {"enabled": True}}},
        "dashboard.ingress.tlsSecretName: missing with dashboard.ingress.enabled, allowed is the Secret of the Ingress's certificate",
    ),
    (
        "two coordinators to report to",
        CONTROL_PLANE,
        nested("shard.coordinatorAddress", "c:7790"),
        "shard.coordinatorAddress: found with coordinator.enabled, allowed is one of them",
    ),
    ("no issuer for the driver", CONTROL_PLANE, nested("shard.tls.csi.enabled", True), "shard.tls.csi.issuerName: missing"),
    (
        "a host name nobody serves",
        CONTROL_PLANE,
        nested("shard.external.hostnamePattern", "s-%d.example.org"),
        "shard.external.hostnamePattern: found without shard.external.enabled",
    ),
    (
        "nothing at all",
        CONTROL_PLANE,
        {"coordinator": {"enabled": False}, "shard": {"enabled": False}},
        "coordinator.enabled, shard.enabled, dashboard.enabled: found all off",
    ),
    ("a long name", CONTROL_PLANE, {"nameOverride": "Big_Fleet"}, 'nameOverride: found "Big_Fleet", allowed are up to 40 small letters'),
    ("a short digest", OPERATOR, nested("image.digest", "sha256:abc"), 'image.digest: found "sha256:abc", allowed is sha256:'),
    ("no cluster id", OPERATOR, {"clusterID": ""}, "clusterID: missing, allowed is the stable id of this cluster; set it with --set clusterID=prod-1"),
    ("a cluster id that is no part of a URI", OPERATOR, {"clusterID": "a/b"}, 'clusterID: found "a/b", allowed are up to 253 letters'),
    ("no shard to dial", OPERATOR, {"shardAddress": ""}, "shardAddress: missing, allowed is host:port of the shard that serves this cluster"),
    ("a shard without a port", OPERATOR, {"shardAddress": "shard"}, 'shardAddress: found "shard", allowed is host:port'),
    ("two operators", OPERATOR, {"replicas": 2}, "replicas: found 2 without leaderElect, allowed is 1"),
    ("two templates", OPERATOR, {"bootstrapTemplate": "x", "bootstrapTemplateSecret": {"name": "y"}}, "found both, allowed is one of them"),
    ("two controllers", POD_CONTROLLER, {"replicas": 2}, "replicas: found 2 without leaderElect, allowed is 1"),
    (
        "a size that is none",
        CONTROL_PLANE,
        nested("shard.auditMaxBytes", "lots"),
        'shard.auditMaxBytes: found "lots", allowed is a number of bytes such as 65536, 64KiB or 100MiB',
    ),
]  # fmt: skip


@pytest.mark.rule("packaging#chart-values", "packaging#shard-certificates", "operator#operator-charts")
@pytest.mark.parametrize(
    ("chart", "values", "words"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_a_value_that_cannot_work_is_refused_in_words(chart: str, values: dict[str, Any], words: str) -> None:
    said = refusal(chart, values)
    assert words in said
    assert "goroutine" not in said
