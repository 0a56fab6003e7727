"""Every value has an effect, every argument is a flag, every flag can be reached, and files of the original stay good."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from bigfleet.app.coordinator.command import COORDINATOR
from bigfleet.app.dashboard.command import DASHBOARD
from bigfleet.app.operator.command import RUN as OPERATOR_COMMAND
from bigfleet.app.shard.command import SHARD
from bigfleet.app.unschedulable_pod_controller.command import RUN as POD_CONTROLLER_COMMAND
from bigfleet.cli.framework.options import options_of
from bigfleet.cli.framework.settings import Flags
from bigfleet.cli.verbs.certificate_secrets import SECRETS
from bigfleet.cli.verbs.doctor.command import DOCTOR
from charts.generate.files import CHARTS as MADE
from charts.generate.value import Value
from tests.charts.rendering import (
    CONTROL_PLANE,
    MATRIX,
    OPERATOR,
    POD_CONTROLLER,
    SECRET,
    Rendered,
    helm_binary,
    merged,
    nested,
    render,
)

pytestmark = pytest.mark.integration

COMMANDS: dict[tuple[str, ...], type[Flags]] = {
    ("bigfleet", "coordinator"): COORDINATOR.settings,
    ("bigfleet", "shard"): SHARD.settings,
    ("bigfleet", "dashboard"): DASHBOARD.settings,
    ("bigfleet", "doctor"): DOCTOR.settings,
    ("bigfleet", "certs", "secrets"): SECRETS.settings,
    ("bigfleet-operator",): OPERATOR_COMMAND.settings,
    ("bigfleet-unschedulable-pod-controller",): POD_CONTROLLER_COMMAND.settings,
}
NOT_BY_VALUE: dict[str, dict[str, str]] = {
    "every": {
        "config": "differs by shard only, and is written by the chart; others have values instead",
        "print-config": "prints and ends",
        "reflection": "for debugging, by extraArgs",
        "log-format": "json, as machines read it",
        "max-connections": "the default is for 5,000 operators a shard; by extraArgs",
        "max-unproven-per-address": "the default suits any fleet; by extraArgs",
        "handshake-timeout": "the default suits any network; by extraArgs",
    },
    "coordinator": {
        "peers": "replicas of a StatefulSet find each other by --join-addr",
        "bootstrap-without-peers": "a step of disaster recovery, by extraArgs and taken back at once",
        "dashboard-addr": "the dashboard is a Deployment of its own",
    },
    "shard": {
        "dashboard-addr": "the dashboard is a Deployment of its own",
        "provider-max-message-bytes": "the default suffices for fleets the chart is made for; by extraArgs",
        "available-capacity-interval": "by extraArgs",
        "listing-guard-window": "the default suits providers that are listed every few seconds; by extraArgs",
        "list-timeout": "the default suffices for fleets the chart is made for; by extraArgs",
        "transition-poll-interval": "the default suits any provider, since slow ones are asked less often; by extraArgs",
        "metrics-warmup-cycles": "for scale tests, by extraArgs",
        **dict.fromkeys(
            (
                "max-rows-per-cluster", "max-rollup-bytes", "max-sessions", "max-silent-streams", "hello-timeout",
                "max-session-age", "ingest-share",
            ),
            "the default suits clusters and fleets the chart is made for; by extraArgs",
        ),
        "phase-attribution-log": "for debugging, by extraArgs",
        "local-bootstrap": "for tests",
        **dict.fromkeys(
            (
                "seed-machines", "seed-speculative", "seed-spot", "seed-configured-per-cluster", "seed-cluster-total",
                "seed-cluster-stride", "seed-density-multiplier", "archetypes", "failure-rate-per-sec",
                "speculative-shed-at-seconds", "speculative-shed-multiplier", "fake-create-latency",
            ),
            "speaks of the fake provider inside the process, by extraArgs",
        ),
    },
    "dashboard": {
        "shutdown-grace": "it has nothing to finish",
        "scrape": "found by itself, or Prometheus is asked",
        "kubeconfig": "the pod has no account in other clusters; by extraArgs and extraVolumes",
        "https-cert": "the Ingress ends TLS",
        "https-client-ca": "the Ingress ends TLS",
        "trusted-proxy": "addresses of the Ingress are the site's own; by extraArgs",
        "https-key": "the Ingress ends TLS",
        "max-connections": "the default suits one pod; by extraArgs",
        "request-timeout": "the default suits browsers; by extraArgs",
        "allowed-shard-host": "where shards run is the site's own; by extraArgs",
        "data-dir": "the pod has no volume, so its history ends with it; by extraArgs",
        "scrape-max-bytes": "the default suffices for fleets the chart is made for; by extraArgs",
    },
    "doctor": dict.fromkeys(
        (
            "provider-addr", "program", "leader-elect", "kubeconfig", "context", "namespace", "output", "no-color", "log-level",
        ),
        "the test pod of the control plane asks for what that chart installs",
    ),
    "secrets": {
        "authority-days": "an authority lives for ten years; by a Secret of one's own",
        **dict.fromkeys(
            ("kubeconfig", "context", "output", "no-color", "log-level"), "the pod of the job asks its own cluster"
        ),
    },
    "bigfleet-operator": {
        "kubeconfig": "the pod's own account",
        "rollup-quiet": "the default suits every cluster; by extraArgs",
        "rollup-max-delay": "the default suits every cluster; by extraArgs",
    },
    "bigfleet-unschedulable-pod-controller": {"kubeconfig": "the pod's own account"},
}  # fmt: skip


@pytest.fixture(autouse=True)
def _helm() -> None:
    helm_binary()


def arguments() -> Iterator[tuple[tuple[str, ...], dict[str, str]]]:
    """Yield command and flags of every container of every rendering."""
    for chart, values in (*MATRIX.values(), *LOUD):
        rendered = render(chart, values)
        for _, pod in rendered.pods():
            for container in pod["spec"]["containers"]:
                given = [
                    argument
                    for argument in container.get("args", ())
                    if "mark" not in argument.partition("=")[0]
                ]
                flags = dict(argument.removeprefix("--").partition("=")[::2] for argument in given)
                yield tuple(container["command"]), flags


@pytest.mark.rule("packaging#chart-values", "packaging#chart-flags", "coordinator#chart")
def test_every_argument_is_a_flag_and_every_flag_can_be_reached() -> None:
    used: dict[tuple[str, ...], set[str]] = {}
    for command, flags in arguments():
        if command in COMMANDS:
            used.setdefault(command, set()).update(flags)
    assert used.keys() == COMMANDS.keys()
    for command, given in used.items():
        known = {option.flag for option in options_of(COMMANDS[command])}
        assert given <= known, f"{command}: no such flag"
        listed = NOT_BY_VALUE["every"].keys() | NOT_BY_VALUE[command[-1]].keys()
        assert known - given - listed == set(), f"{command}: neither reached by a value nor listed"


def marked(row: Value, number: int) -> Any:
    """Return a value that differs from the default and can be found again."""
    kind = row.schema.get("type")
    if "enum" in row.schema:
        return next(each for each in row.schema["enum"] if each != row.default)
    if row.check == "duration":
        return f"{3000 + number}s"
    if row.check == "bytes":
        return f"{3000 + number}"
    if row.check in ("address", "needed.address"):
        return f"mark{number}.example:{3000 + number}"
    if row.check == "pattern":
        return f"mark{number}-%d-x"
    if row.check == "digest":
        return "sha256:" + f"{number:x}".rjust(64, "a")
    match kind:
        case "string":
            return f"/mark{number}" if str(row.default).startswith("/") else f"mark{number}"
        case "integer":
            return min(3000 + number, row.schema.get("maximum", 10_000))
        case "number":
            return 0.5
        case "boolean":
            return not row.default
        case "array" if "properties" in row.schema["items"]:
            return [{"secret": f"mark{number}", "uri": "bigfleet://admin"}]
        case "array" if row.schema["items"]["type"] == "string":
            return [f"mark{number}"]
        case "array":
            return [{"name": f"mark{number}"}]
    if "properties" in row.schema.get("additionalProperties", {}):
        return {f"mark{number}": {"interruptionPenalty": "7"}}
    return {f"mark{number}": "x"}


def loud(rows: tuple[Value, ...], fixed: dict[str, Any], leave: set[str]) -> dict[str, Any]:
    """Return values that mark every key at once, but booleans and what cannot go together."""
    values: dict[str, Any] = {}
    for number, row in enumerate(rows):
        if row.schema.get("type") != "boolean" and not row.kept and row.path not in leave:
            values = merged(values, nested(row.path, marked(row, number)))
    return merged(values, fixed)


ON: dict[str, Any] = {
    "dashboard": {"enabled": True, "ingress": {"enabled": True}},
    "podMonitor": {"enabled": True},
    "prometheusRule": {"enabled": True},
    "grafanaDashboards": {"enabled": True},
    "networkPolicy": {"egress": {"enabled": True}},
    "coordinator": {"snapshotExport": {"enabled": True}},
    "shard": {"external": {"enabled": True}},
    "certManager": {"enabled": True},
}
ROWS = {chart.name: chart.rows for chart in MADE}
LEAVE = {  # cannot stand beside others, or are looked at in another of these sets
    "shard.coordinatorAddress", "shard.providerAddrs", "shard.provider.addr", "shard.tls.secretName", "shard.replicas",
    "image.tag", "image.digest", "coordinator.tls.secretName", "dashboard.tls.secretName", "shard.tls.csi.issuerName",
    "shard.tls.csi.issuerKind", "nameOverride", "prometheusRule.disabled", "dashboard.prometheusUrl", "dashboard.basePath",
    "bootstrapTemplateSecret.name", "bootstrapTemplateSecret.key", "replicas", "clusterID",
    "coordinator.affinity", "coordinator.spread.hostname", "coordinator.spread.zone", "shard.affinity", "certManager.enabled",
    "certificates.authoritySecret", "certificates.days", "certificates.renewBeforeDays", "certificates.schedule",
}  # fmt: skip
LOUD: list[tuple[str, dict[str, Any]]] = [
    (CONTROL_PLANE, loud(ROWS[CONTROL_PLANE], merged(ON, {"shard": {"providerAddrs": ["markp.example:4001"], "sharedProvider": True}}), LEAVE)),
    (OPERATOR, loud(ROWS[OPERATOR], {"podMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}, "networkPolicy": {"egress": {"enabled": True}}}, LEAVE)),
    (POD_CONTROLLER, loud(ROWS[POD_CONTROLLER], {"podMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}, "networkPolicy": {"egress": {"enabled": True}}}, LEAVE)),
]  # fmt: skip


@pytest.mark.rule("packaging#chart-values", "packaging#chart-flags")
@pytest.mark.parametrize(("chart", "values"), LOUD, ids=[chart for chart, _ in LOUD])
def test_every_value_is_found_in_the_rendering(chart: str, values: dict[str, Any]) -> None:
    text = render(chart, values).text
    for number, row in enumerate(ROWS[chart]):
        if row.schema.get("type") == "boolean" or row.kept or row.path in LEAVE:
            continue
        given = marked(row, number)
        if isinstance(given, dict):
            ((found, _),) = given.items()
        elif isinstance(given, list):
            found = next(iter(given[0].values())) if isinstance(given[0], dict) else given[0]
        else:
            found = str(given).partition("%d")[0]
        assert re.search(rf"\b{re.escape(found.lstrip('/'))}", text), f"{row.path} has no effect"


ALONE: list[tuple[str, str, Any, dict[str, Any]]] = [
    # chart, path, value, what must stand beside it for the value to matter
    (CONTROL_PLANE, "image.tag", "mark", {}),
    (CONTROL_PLANE, "image.digest", "sha256:" + "a" * 64, {}),
    (CONTROL_PLANE, "nameOverride", "mark", {}),
    (CONTROL_PLANE, "shard.coordinatorAddress", "mark:1", {"coordinator": {"enabled": False}, "certificates": {"authoritySecret": "a"}}),
    (CONTROL_PLANE, "shard.provider.addr", "mark:1", {}),
    (CONTROL_PLANE, "shard.replicas", 2, {}),
    (CONTROL_PLANE, "shard.tls.secretName", "mark", {"coordinator": {"tls": {"secretName": "c"}}, "shard": {"tls": {"secretName": "s"}}}),
    (CONTROL_PLANE, "shard.tls.csi.issuerKind", "ClusterIssuer", {"coordinator": {"tls": {"secretName": "c"}}, "shard": {"tls": {"csi": {"enabled": True, "issuerName": "mark"}}}}),
    (CONTROL_PLANE, "dashboard.prometheusUrl", "http://mark:1", {"dashboard": {"enabled": True}}),
    (CONTROL_PLANE, "dashboard.basePath", "/mark/", {"dashboard": {"enabled": True}}),
    (CONTROL_PLANE, "dashboard.tls.secretName", "mark", {"coordinator": {"tls": {"secretName": "c"}}, "shard": {"tls": {"secretName": "s"}}, "dashboard": {"enabled": True, "tls": {"secretName": "d"}}}),
    (CONTROL_PLANE, "certManager.enabled", True, {}),
    (CONTROL_PLANE, "certificates.authoritySecret", "mark", {}),
    (CONTROL_PLANE, "certificates.days", 60, {}),
    (CONTROL_PLANE, "certificates.renewBeforeDays", 20, {}),
    (CONTROL_PLANE, "certificates.schedule", "", {}),
    (CONTROL_PLANE, "coordinator.affinity", {"nodeAffinity": {}}, {}),
    (CONTROL_PLANE, "shard.affinity", {"nodeAffinity": {}}, {}),
    (OPERATOR, "bootstrapTemplateSecret.name", "mark", {}),
    (OPERATOR, "bootstrapTemplateSecret.key", "mark", {"bootstrapTemplateSecret": {"name": "x"}}),
    (OPERATOR, "clusterID", "mark", {}),
    (OPERATOR, "replicas", 2, {"leaderElect": True}),
    (POD_CONTROLLER, "replicas", 2, {"leaderElect": True}),
]  # fmt: skip
NEEDS: dict[str, dict[str, Any]] = {  # what a switch must stand beside in order to matter
    "shard.auditStrict": {"shard": {"auditLog": "/a"}},
    "networkPolicy.egress.enabled": {},
    "dashboard.ingress.enabled": {"dashboard": {"enabled": True, "ingress": {"tlsSecretName": "t"}}},
    "rbac.create": {"serviceAccount": {"create": False, "name": "theirs"}},
    "shard.tls.csi.enabled": {"coordinator": {"tls": {"secretName": "c"}}, "shard": {"tls": {"csi": {"issuerName": "i"}, "secretNamePattern": "s-%d"}}},
}  # fmt: skip
SWITCHES = [
    (name, row.path, not row.default, NEEDS.get(row.path, {}))
    for name, rows in ROWS.items()
    for row in rows
    if row.schema.get("type") == "boolean" and not row.kept and (name, row.path) != (OPERATOR, "insecure")
]
"""The operator's `insecure` only permits that `tls.secretName` is empty; `test_refusals` and `test_agents` look at it."""


@pytest.mark.rule("packaging#chart-values", "packaging#chart-flags")
@pytest.mark.parametrize(
    ("chart", "path", "value", "beside"),
    [*ALONE, *SWITCHES],
    ids=[f"{case[0]} {case[1]}" for case in (*ALONE, *SWITCHES)],
)
def test_a_value_alone_changes_the_rendering(
    chart: str, path: str, value: Any, beside: dict[str, Any]
) -> None:
    base = merged(SECRET, beside) if chart == CONTROL_PLANE else beside
    before: Rendered = render(chart, base)
    assert render(chart, merged(base, nested(path, value))).objects != before.objects


@pytest.mark.rule("packaging#chart-values")
def test_a_values_file_of_the_original_renders_unchanged() -> None:
    """Every key that the original's charts know, as its guides set them; an operator in plaintext also says insecure."""
    image = {"repository": "registry.example.org/bigfleet", "tag": "v0.1.0", "pullPolicy": "Always"}
    account = {"create": True, "name": "", "annotations": {}}
    limits = {"requests": {"cpu": "200m", "memory": "256Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    control_plane = {
        "image": image,
        "namespace": "bigfleet-system",
        "coordinator": {
            "enabled": True, "replicas": 3, "bootstrap": True, "dataDir": "/var/lib/bigfleet", "resources": limits,
            "storage": {"size": "10Gi", "storageClassName": ""}, "rebalanceInterval": "5s",
            "service": {"grpcPort": 7790, "raftPort": 7791, "metricsPort": 8790}, "tls": {"secretName": ""},
        },
        "shard": {
            "enabled": True, "replicas": 1, "dataDir": "/var/lib/bigfleet-shard", "resources": limits,
            "service": {"grpcPort": 7780, "metricsPort": 8780}, "storage": {"size": "1Gi", "storageClassName": ""},
            "provider": {"addr": ""}, "actuationPaused": False, "reclaimCapFraction": 0.05, "emptyRollupGuard": True,
            "dryRun": False, "auditLog": "", "tls": {"secretName": ""},
        },
        "rbac": {"create": True}, "serviceAccount": account, "podMonitor": {"enabled": False},
    }  # fmt: skip
    rendered = render(CONTROL_PLANE, control_plane)
    assert {"bigfleet-coordinator", "bigfleet-shard"} <= {
        thing["metadata"]["name"] for thing in rendered.all("StatefulSet")
    }
    shared = {
        "image": image,
        "namespace": "bigfleet-system",
        "resources": limits,
        "rbac": {"create": True},
        "serviceAccount": account,
    }
    render(
        OPERATOR,
        {**shared, "clusterID": "prod-1", "shardAddress": "s:7780", "tls": {"secretName": ""}, "insecure": True, "bootstrapTemplate": "", "metricsPort": 8770, "crds": {"install": True}},
    )  # fmt: skip
    render(POD_CONTROLLER, {**shared, "metricsPort": 8080, "priorityClassDefaults": {}})
