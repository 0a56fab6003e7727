"""Where certificates come from, what the job may do, and that plaintext comes from one value alone.

Rules: `packaging#certificates-by-default`, `packaging#certificate-job`, `packaging#insecure`; ADR-0251, ADR-0252.
"""

import shlex
from typing import Any

import pytest

from bigfleet.cli.verbs.certificate_secrets import WantedCertificate
from tests.charts.rendering import (
    CERT_MANAGER,
    CONTROL_PLANE,
    MATRIX,
    SECRET,
    Document,
    Rendered,
    helm_binary,
    merged,
    nested,
    render,
)

pytestmark = pytest.mark.integration
WORKLOADS = (
    "StatefulSet bigfleet-coordinator",
    "StatefulSet bigfleet-shard",
    "Deployment bigfleet-dashboard",
)
BOARD = {"dashboard": {"enabled": True}}
OWN = {
    "coordinator": {"tls": {"secretName": "c"}},
    "shard": {"tls": {"secretName": "s"}},
    "dashboard": {"tls": {"secretName": "d"}},
}


@pytest.fixture(autouse=True)
def _helm() -> None:
    helm_binary()


def source(rendered: Rendered) -> str:
    """Return where the certificates of a rendering come from."""
    if "Job" in rendered.kinds():
        return "job"
    return "cert-manager" if "Certificate" in rendered.kinds() else "none"


def mounted(rendered: Rendered) -> set[str]:
    """Return the Secrets that pods mount as certificates."""
    found = set()
    for name, pod in rendered.pods():
        for volume in pod["spec"]["volumes"]:
            if volume["name"] == "tls" and name != "bigfleet-doctor":
                each = volume.get("projected", {}).get("sources", ())
                found |= {part["secret"]["name"] for part in each} | {
                    volume.get("secret", {}).get("secretName", "")
                }
    return found - {""}


def secured(rendered: Rendered) -> dict[str, bool]:
    """Return for each workload whether all three TLS flags are there."""
    flags = {work: rendered.flags(*work.split()) for work in WORKLOADS}
    return {work: {"tls-cert", "tls-key", "tls-ca"} <= given.keys() for work, given in flags.items()}


def wanted(container: Document) -> list[WantedCertificate]:
    """Read the arguments of the job as its program does."""
    words = [each.partition("=")[2] for each in container["args"] if each.startswith("--certificate=")]
    return [WantedCertificate.parse(word) for word in words]


@pytest.mark.rule("packaging#certificates-by-default")
@pytest.mark.parametrize(
    ("values", "kinds", "comes_from"),
    [
        pytest.param({}, "", "job", id="nothing set, no cert-manager"),
        pytest.param({}, CERT_MANAGER, "cert-manager", id="nothing set, cert-manager there"),
        pytest.param({}, "cert-manager.io/v1/Certificate", "job", id="half of cert-manager"),
        pytest.param(nested("certManager.enabled", False), CERT_MANAGER, "job", id="cert-manager not wanted"),
        pytest.param(nested("certManager.enabled", True), "", "cert-manager", id="cert-manager asked for"),
        pytest.param(
            nested("certManager.issuerRef.name", "ours"), "", "cert-manager", id="an issuer is named"
        ),
        pytest.param(OWN, CERT_MANAGER, "none", id="Secrets of one's own"),
    ],
)
def test_every_part_has_a_certificate_wherever_it_comes_from(
    values: dict[str, Any], kinds: str, comes_from: str
) -> None:
    rendered = render(CONTROL_PLANE, merged(merged(SECRET, BOARD), values), kinds=kinds)
    assert source(rendered) == comes_from
    assert secured(rendered) == dict.fromkeys(WORKLOADS, True)
    own = {"bigfleet-coordinator-tls", "bigfleet-shard-0-tls", "bigfleet-dashboard-tls"}
    assert mounted(rendered) == ({"c", "s", "d"} if values is OWN else own)


@pytest.mark.rule("packaging#insecure")
def test_plaintext_comes_from_one_value_alone() -> None:
    plain = render(CONTROL_PLANE, merged(merged(SECRET, BOARD), {"insecure": True}), kinds=CERT_MANAGER)
    assert source(plain) == "none"
    assert secured(plain) == dict.fromkeys(WORKLOADS, False)
    for name, (chart, values) in MATRIX.items():
        if chart == CONTROL_PLANE:
            text = render(chart, values).text
            assert ("--tls-cert=" in text) == (not values.get("insecure")), name


@pytest.mark.rule("packaging#certificate-job")
def test_the_job_signs_what_the_pods_mount_and_what_values_ask_for() -> None:
    rendered = render(*MATRIX["job"])
    (job,) = rendered.all("Job")
    (cron,) = rendered.all("CronJob")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    (again,) = cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    signed = {each.secret: each for each in wanted(container)}
    assert wanted(again) == list(signed.values())
    assert mounted(rendered) <= signed.keys()
    assert {name: str(each.identity) for name, each in signed.items()} == {
        "bigfleet-coordinator-tls": "bigfleet://admin",
        "bigfleet-shard-0-tls": "bigfleet://shard/bigfleet-shard-0",
        "bigfleet-shard-1-tls": "bigfleet://shard/bigfleet-shard-1",
        "bigfleet-dashboard-tls": "bigfleet://readonly",
        "bigfleet-operator-prod-1-tls": "bigfleet://cluster/prod-1",
        "provider-tls": "bigfleet://shard/provider",
    }
    assert signed["bigfleet-shard-1-tls"].names == (
        "bigfleet-shard-1.bigfleet-shard-headless.fleet.svc",
        "bigfleet-shard.fleet.svc",
        "s-1.example.org",
    )
    assert signed["bigfleet-coordinator-tls"].names == (
        "bigfleet-coordinator.fleet.svc",
        "*.bigfleet-coordinator.fleet.svc",
    )
    assert signed["provider-tls"].names == ("provider.providers.svc",)
    assert "--make-authority=true" in container["args"]
    assert "--make-authority=false" in again["args"], "only an installation makes an authority"
    assert shlex.split(" ".join(container["command"])) == ["bigfleet", "certs", "secrets"]


@pytest.mark.rule("packaging#certificate-job")
def test_the_role_of_the_job_names_exactly_its_secrets() -> None:
    for values, kept in (
        (MATRIX["job"][1], []),
        (merged(MATRIX["job"][1], {"certificates": {"authoritySecret": "ours"}}), ["ours"]),
    ):
        rendered = render(CONTROL_PLANE, values)
        (job,) = rendered.all("Job")
        signed = [each.secret for each in wanted(job["spec"]["template"]["spec"]["containers"][0])]
        setup = rendered.one("Role", "bigfleet-certs-setup")["rules"]
        renew = rendered.one("Role", "bigfleet-certs-renew")["rules"]
        for rule in (*setup, *renew):
            assert (rule["apiGroups"], rule["resources"]) == ([""], ["secrets"])
        writes = [*([] if kept else ["bigfleet-ca"]), *signed]
        reads = [{"names": kept, "verbs": ["get"]}] if kept else []
        assert [{"names": rule["resourceNames"], "verbs": rule["verbs"]} for rule in setup] == [
            {"names": writes, "verbs": ["get", "create", "patch"]},
            *reads,
        ]
        assert [{"names": rule["resourceNames"], "verbs": rule["verbs"]} for rule in renew] == [
            {"names": signed, "verbs": ["get", "create", "patch"]},
            {"names": kept or ["bigfleet-ca"], "verbs": ["get"]},
        ]


@pytest.mark.rule("packaging#certificate-job")
def test_certificates_are_there_before_the_pods_and_the_hook_leaves_nothing() -> None:
    rendered = render(*MATRIX["job"])
    hooks = [thing for thing in rendered.objects if "certs-setup" in thing["metadata"]["name"]]
    weights = {}
    for thing in hooks:
        notes = thing["metadata"]["annotations"]
        assert notes["helm.sh/hook"] == "pre-install,pre-upgrade"
        assert notes["helm.sh/hook-delete-policy"] == "before-hook-creation,hook-succeeded"
        weights[thing["kind"]] = int(notes.get("helm.sh/hook-weight", "0"))
    assert weights.keys() == {"ServiceAccount", "Role", "RoleBinding", "Job"}
    assert all(weight < weights["Job"] for kind, weight in weights.items() if kind != "Job")
    assert not render(CONTROL_PLANE, merged(SECRET, nested("certificates.schedule", ""))).all("CronJob")


@pytest.mark.rule("packaging#certificate-job")
def test_an_account_of_ones_own_can_run_the_job() -> None:
    values = {"rbac": {"create": False}, "serviceAccount": {"create": False, "name": "theirs"}}
    rendered = render(CONTROL_PLANE, merged(SECRET, values))
    assert not {"Role", "RoleBinding", "ServiceAccount"} & rendered.kinds()
    (job,) = rendered.all("Job")
    assert job["spec"]["template"]["spec"]["serviceAccountName"] == "theirs"


@pytest.mark.rule("packaging#certificates-by-default")
def test_cert_manager_gets_an_authority_of_the_release_unless_an_issuer_is_named() -> None:
    rendered = render(*MATRIX["cert-manager"])
    issuers = {thing["metadata"]["name"]: thing["spec"] for thing in rendered.all("Issuer")}
    assert issuers == {
        "bigfleet-selfsigned": {"selfSigned": {}},
        "bigfleet-ca": {"ca": {"secretName": "bigfleet-ca"}},
    }
    signed = {thing["metadata"]["name"]: thing["spec"] for thing in rendered.all("Certificate")}
    authority = signed.pop("bigfleet-ca")
    assert (authority["isCA"], authority["secretName"], authority["privateKey"]["rotationPolicy"]) == (
        True,
        "bigfleet-ca",
        "Never",
    )
    assert {each["issuerRef"]["name"] for each in signed.values()} == {"bigfleet-ca"}
    assert {each["issuerRef"]["kind"] for each in signed.values()} == {"Issuer"}
    assert signed["bigfleet-operator-prod-1"]["uris"] == ["bigfleet://cluster/prod-1"]
    assert signed["bigfleet-operator-prod-1"]["secretName"] == "bigfleet-operator-prod-1-tls"
    named = render(
        CONTROL_PLANE, merged(SECRET, {"certManager": {"issuerRef": {"name": "x", "kind": "ClusterIssuer"}}})
    )
    assert not named.all("Issuer")
    assert {each["spec"]["issuerRef"]["kind"] for each in named.all("Certificate")} == {"ClusterIssuer"}
    ours = render(
        CONTROL_PLANE,
        merged(SECRET, {"certManager": {"enabled": True}, "certificates": {"authoritySecret": "ours"}}),
    )
    assert [thing["spec"] for thing in ours.all("Issuer")] == [{"ca": {"secretName": "ours"}}]


@pytest.mark.rule("packaging#dashboard-objects")
def test_readers_of_the_dashboard_always_need_a_token() -> None:
    made = render(CONTROL_PLANE, BOARD)
    secret = made.one("Secret", "bigfleet-dashboard-token")
    assert secret["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert len(secret["data"]["token"]) >= 64
    for values, name in (
        (BOARD, "bigfleet-dashboard-token"),
        (merged(BOARD, nested("dashboard.tokenSecret", "t")), "t"),
        ({**BOARD, "insecure": True}, "bigfleet-dashboard-token"),
    ):
        rendered = render(CONTROL_PLANE, values)
        assert rendered.flags("Deployment", "bigfleet-dashboard")["token-file"] == "/etc/bigfleet/token/token"
        volumes = rendered.one("Deployment", "bigfleet-dashboard")["spec"]["template"]["spec"]["volumes"]
        assert [each["secret"]["secretName"] for each in volumes if each["name"] == "token"] == [name]


def test_the_doctor_shows_a_certificate_of_what_is_installed() -> None:
    for values, role, secret in (
        ({}, "admin", "bigfleet-coordinator-tls"),
        (nested("coordinator.enabled", False), "shard", "bigfleet-shard-0-tls"),
    ):
        (doctor,) = render(CONTROL_PLANE, merged(SECRET, values)).all("Pod")
        assert f"--role={role}" in doctor["spec"]["containers"][0]["args"]
        volumes = [
            each["secret"]["secretName"] for each in doctor["spec"]["volumes"] if each["name"] == "tls"
        ]
        assert volumes == [secret]
