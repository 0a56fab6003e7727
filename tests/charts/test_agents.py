"""The charts of operator and pod controller render what `packaging#agent-charts`, `packaging#crds`, `operator#roles`
and `operator#operator-charts` ask for."""

from typing import Any

import pytest
import yaml

from bigfleet.kube.roles import (
    LEADER_ELECT,
    POD_EVENTS,
    WATCH_PODS,
    RbacRole,
)
from bigfleet.kube.roles import (
    OPERATOR as OPERATOR_ROLE,
)
from bigfleet.kube.roles import (
    POD_CONTROLLER as POD_CONTROLLER_ROLE,
)
from tests.charts.rendering import (
    CRDS,
    MATRIX,
    OPERATOR,
    POD_CONTROLLER,
    Rendered,
    example,
    helm_binary,
    merged,
    render,
)
from tests.support.rbac import cluster_role, namespace_role

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def _helm() -> None:
    helm_binary()


def deployment(rendered: Rendered) -> dict[str, Any]:
    (found,) = rendered.all("Deployment")
    return found


@pytest.mark.rule("packaging#roles")
@pytest.mark.parametrize(
    ("chart", "role", "values", "flags"),
    [
        (OPERATOR, OPERATOR_ROLE, {}, {WATCH_PODS}),
        (OPERATOR, OPERATOR_ROLE, {"watchPods": False}, set()),
        (OPERATOR, OPERATOR_ROLE, {"leaderElect": True}, {LEADER_ELECT, WATCH_PODS}),
        (POD_CONTROLLER, POD_CONTROLLER_ROLE, {}, {POD_EVENTS}),
        (POD_CONTROLLER, POD_CONTROLLER_ROLE, {"podEvents": False}, set()),
        (POD_CONTROLLER, POD_CONTROLLER_ROLE, {"leaderElect": True}, {POD_EVENTS, LEADER_ELECT}),
    ],
)
def test_the_rendered_role_is_the_one_beside_the_code(
    chart: str, role: RbacRole, values: dict[str, Any], flags: set[str]
) -> None:
    rendered = render(chart, values)
    chosen = frozenset(flags)
    assert rendered.one("ClusterRole", chart)["rules"] == cluster_role(role, flags=chosen)["rules"]
    own = namespace_role(role, "fleet", flags=chosen)
    assert [thing["rules"] for thing in rendered.all("Role")] == ([own["rules"]] if own else [])
    subject = {"kind": "ServiceAccount", "name": chart, "namespace": "fleet"}
    bindings = [*rendered.all("ClusterRoleBinding"), *rendered.all("RoleBinding")]
    assert [thing["subjects"] for thing in bindings] == [[subject]] * (2 if own else 1)
    assert deployment(rendered)["spec"]["template"]["spec"]["serviceAccountName"] == chart


@pytest.mark.rule("packaging#roles")
def test_no_role_has_secrets_or_may_delete_pods_or_nodes() -> None:
    for name, (chart, values) in MATRIX.items():
        if chart not in (OPERATOR, POD_CONTROLLER):
            continue
        rendered = render(chart, values)
        for thing in (*rendered.all("ClusterRole"), *rendered.all("Role")):
            for rule in thing["rules"]:
                assert not {"secrets", "configmaps", "*"} & {*rule["resources"], *rule["verbs"]}, name
                assert not ({"pods", "nodes"} & set(rule["resources"]) and "delete" in rule["verbs"]), name
    status = [
        rule
        for rule in render(POD_CONTROLLER).one("ClusterRole", POD_CONTROLLER)["rules"]
        if rule["resources"] == ["capacityrequests/status"]
    ]
    assert [rule["verbs"] for rule in status] == [["patch"]], "without it the Pending stamp is refused (P5)"


def test_roles_can_be_left_to_others() -> None:
    for chart in (OPERATOR, POD_CONTROLLER):
        rendered = render(
            chart, {"rbac": {"create": False}, "serviceAccount": {"create": False, "name": "theirs"}}
        )
        assert not {"ClusterRole", "ClusterRoleBinding", "ServiceAccount"} & rendered.kinds()
        assert deployment(rendered)["spec"]["template"]["spec"]["serviceAccountName"] == "theirs"


def test_never_two_sessions_of_one_cluster() -> None:
    for chart in (OPERATOR, POD_CONTROLLER):
        spec = deployment(render(chart))["spec"]
        assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
        probes = spec["template"]["spec"]["containers"][0]
        assert probes["readinessProbe"]["httpGet"]["path"] == "/readyz"


@pytest.mark.rule("packaging#agent-charts")
def test_template_and_certificate_lie_side_by_side() -> None:
    rendered = render(*MATRIX["operator"])
    container = deployment(rendered)["spec"]["template"]["spec"]["containers"][0]
    paths = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert paths == {"tmp": "/tmp", "template": "/etc/bigfleet/template", "tls": "/etc/bigfleet/tls"}
    flags = rendered.flags("Deployment", OPERATOR)
    assert flags["bootstrap-template-file"] == "/etc/bigfleet/template/bootstrap.tmpl"
    assert flags["tls-ca"] == "/etc/bigfleet/tls/ca.crt"
    text = rendered.one("ConfigMap", "bigfleet-operator-bootstrap-template")["data"]["bootstrap.tmpl"]
    assert text == example("operator-values.yaml")["bootstrapTemplate"]


def test_a_template_with_a_token_comes_from_a_secret() -> None:
    rendered = render(*MATRIX["operator, two and a secret"])
    volumes = deployment(rendered)["spec"]["template"]["spec"]["volumes"]
    (chosen,) = (volume["secret"] for volume in volumes if volume["name"] == "template")
    assert chosen["items"] == [{"key": "bootstrap.tmpl", "path": "bootstrap.tmpl"}]
    assert not rendered.all("ConfigMap")


def mark(chart: str, values: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = deployment(render(chart, values))["spec"]["template"]["metadata"]["annotations"]
    return found


@pytest.mark.rule("packaging#config-checksum")
def test_changed_template_or_defaults_restart_the_pod() -> None:
    first = mark(OPERATOR, {"bootstrapTemplate": "a"})
    assert first != mark(OPERATOR, {"bootstrapTemplate": "b"})
    defaults = example("pod-controller-values.yaml")
    other = merged(defaults, {"priorityClassDefaults": {"batch": {"interruptionPenalty": "1"}}})
    assert mark(POD_CONTROLLER, defaults) != mark(POD_CONTROLLER, other)


def test_the_defaults_are_the_file_that_the_program_reads() -> None:
    rendered = render(*MATRIX["pod controller"])
    written = rendered.one("ConfigMap", "bigfleet-priority-class-defaults")["data"]["defaults.yaml"]
    assert yaml.safe_load(written) == example("pod-controller-values.yaml")["priorityClassDefaults"]
    assert (
        rendered.flags("Deployment", POD_CONTROLLER)["priority-class-defaults"]
        == "/etc/bigfleet/defaults/defaults.yaml"
    )


@pytest.mark.rule("packaging#insecure")
def test_an_operator_dials_with_a_certificate_unless_insecure() -> None:
    assert render(OPERATOR).text.count("--tls-") == 3
    assert "--tls-" not in render(OPERATOR, {"tls": {"secretName": ""}, "insecure": True}).text


@pytest.mark.rule("packaging#crds", "operator#operator-charts")
def test_the_definitions_come_along_are_kept_and_can_be_left_out() -> None:
    alone = {
        thing["metadata"]["name"]: thing["spec"] for thing in render(CRDS).all("CustomResourceDefinition")
    }
    along = render(OPERATOR).all("CustomResourceDefinition")
    assert {thing["metadata"]["name"]: thing["spec"] for thing in along} == alone
    assert len(alone) == 3
    for thing in along:
        assert thing["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert not render(OPERATOR, {"crds": {"install": False}}).all("CustomResourceDefinition")
    assert not render(POD_CONTROLLER).all("CustomResourceDefinition")


def test_only_metrics_are_let_in() -> None:
    for chart, port in ((OPERATOR, 8770), (POD_CONTROLLER, 8080)):
        (policy,) = render(chart).all("NetworkPolicy")
        here: list[dict[str, Any]] = [{"podSelector": {}}]
        assert policy["spec"]["ingress"] == [{"ports": [{"port": port, "protocol": "TCP"}], "from": here}]
        (closed,) = render(chart, {"networkPolicy": {"metricsFrom": []}}).all("NetworkPolicy")
        assert not closed["spec"]["ingress"], (
            "no list is no peer, where Kubernetes itself would take it for every peer"
        )
    dialled = render(*MATRIX["operator"]).all("NetworkPolicy")[0]["spec"]["egress"]
    assert {port["port"] for rule in dialled for port in rule["ports"]} == {53, 443, 6443, 7780}
