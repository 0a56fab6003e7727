"""What Helm tells whoever installs the control plane: addresses, and what is not yet as it should be.

Rules: `packaging#chart-notes`.
"""

import json
from typing import Any

import pytest

from tests.charts.rendering import CHARTS, CONTROL_PLANE, MATRIX, helm, merged, nested
from tests.support.control_plane.cluster import Cluster

PRODUCTION = MATRIX["production"][1]

NOTES: dict[str, tuple[dict[str, Any], str]] = {
    "plaintext": ({"insecure": True}, "WARNING: insecure: no TLS"),
    "plaintext on a load balancer": (
        {"insecure": True, "shard": {"external": {"enabled": True}}},
        "WARNING: shard.external opens this plaintext port to other networks, and every address may dial it",
    ),
    "certificates of the job": (
        {"certManager": {"enabled": False}},
        "Mutual TLS is on. A job of this release signs the certificates and renews them (17 3 * * *).",
    ),
    "certificates of cert-manager": (
        nested("certManager.issuerRef.name", "ours"),
        "Mutual TLS is on. cert-manager signs the certificates by the issuer ours.",
    ),
    "how an operator gets its certificate": (
        nested("certificates.clusters", ["prod-1"]),
        'get secret bigfleet-operator-prod-1-tls -o "go-template={{index .data \\"$key\\" | base64decode}}" >$key; done',
    ),
    "an address that no certificate carries": (
        nested("shard.external.enabled", True),
        "WARNING: the certificates of shards do not carry the addresses of their external Services",
    ),
    "a provider that needs a certificate": (
        nested("shard.provider.addr", "p:9000"),
        "Providers need a certificate of the same authority: certificates.further.",
    ),
    "scrapers elsewhere": (
        nested("podMonitor.enabled", True),
        "NOTE: only pods of this namespace may scrape metrics.",
    ),
    "no policies": (nested("networkPolicy.enabled", False), "WARNING: no network policies."),
    "the dashboard's token": (
        nested("dashboard.enabled", True),
        "get secret bigfleet-dashboard-token -o 'go-template={{.data.token | base64decode}}'",
    ),
    "a token rendered offline": (
        nested("dashboard.enabled", True),
        "WARNING: rendered without a cluster, so the dashboard's token is new in every rendering",
    ),
    "the fake provider": ({}, "WARNING: shards run a fake provider inside themselves"),
    "no exports": ({}, "WARNING: no snapshots are exported"),
    "exports beside the data": (
        nested("coordinator.snapshotExport.enabled", True),
        "NOTE: exports lie beside the data",
    ),
    "rendered offline": (
        {},
        "WARNING: rendered without a cluster, so the Raft secret is new in every rendering",
    ),
    "one provider, two shards": (
        {"shard": {"replicas": 2, "provider": {"addr": "p:9000"}}},
        "WARNING: 2 shards share the provider p:9000",
    ),
    "a value without effect": (
        nested("coordinator.rebalanceInterval", "7s"),
        "NOTE: coordinator.rebalanceInterval has no effect",
    ),
    "keys in reach of siblings": (
        {"coordinator": {"tls": {"secretName": "c"}}, "shard": {"tls": {"secretNamePattern": "s-%d"}}},
        "NOTE: every shard pod can read the keys of all shards",
    ),
    "addresses": ({}, "bigfleet-shard-0.bigfleet-shard-headless.fleet.svc:7780 (inside this cluster)"),
}


@pytest.mark.rule("packaging#chart-notes")
@pytest.mark.parametrize("what", NOTES)
def test_the_notes_warn(charted: Cluster, what: str) -> None:
    values, words = NOTES[what]
    assert words in notes(charted, values)


@pytest.mark.rule("packaging#chart-notes")
def test_the_notes_of_a_good_install_warn_of_nothing(charted: Cluster) -> None:
    said = notes(
        charted, merged(PRODUCTION, {"shard": {"tls": {"csi": {"enabled": True, "issuerName": "ca"}}}})
    )
    assert "WARNING" not in said
    assert "Mutual TLS is on." in said
    assert "shard-2.fleet.example.org:7780" in said


def notes(cluster: Cluster, values: dict[str, Any]) -> str:
    """Return what is told after a trial without the cluster's own objects, as a rendering elsewhere would be."""
    done = helm(
        "install",
        "demo",
        str(CHARTS / CONTROL_PLANE),
        "--namespace=fleet",
        "--dry-run=client",
        "--values=-",
        stdin=json.dumps(values),
        kubeconfig=cluster.kubeconfig(),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.partition("NOTES:")[2]
