"""Command lines and input files of the components, as plain values.

Why: flags are where a test control plane goes wrong, so they are kept together, can be read at a glance, and be tested
without starting anything.
Must never: name an absolute path: the working directory of every component is the cluster's own.
How: etcd listens on two Unix sockets in that directory, so that a cluster takes one TCP port in all.
"""

import json
from collections.abc import Sequence
from typing import Final

from tests.support.control_plane.options import ALL_CONTROLLERS, USERS, ClusterOptions, User

TOKENS_FILE: Final = "tokens.csv"
STAGES_FILE: Final = "stages.yaml"
CA_FILE: Final = "ca.crt"
CERT_FILE: Final = "apiserver.crt"
KEY_FILE: Final = "apiserver.key"
SERVICE_ACCOUNT_KEY_FILE: Final = "sa.key"
AUDIT_POLICY_FILE: Final = "audit-policy.json"
AUDIT_LOG: Final = "audit.log"
_CONTEXT: Final = "testbed"
# The form host:port is demanded of sockets too.
_ETCD: Final = "unix://etcd:1"
_PEER: Final = "unix://peer:1"
# With the defaults of the components they throttle themselves: 5.7 s instead of 1.6 s to the first running pod.
_EAGER: Final = ("--leader-elect=false", "--secure-port=0", "--kube-api-qps=500", "--kube-api-burst=1000")


def etcd() -> tuple[str, ...]:
    """Return the flags of etcd; a test's data need not survive a power cut, so nothing is synced."""
    return (
        "--data-dir=etcd",
        "--unsafe-no-fsync",
        "--log-level=warn",
        f"--listen-client-urls={_ETCD}",
        f"--advertise-client-urls={_ETCD}",
        f"--listen-peer-urls={_PEER}",
        f"--initial-advertise-peer-urls={_PEER}",
        f"--initial-cluster=default={_PEER}",
    )


def api_server(port: int, options: ClusterOptions) -> tuple[str, ...]:
    """Return the flags of the API server; the port is held by a socket of ours too, which the server shares."""
    audit = (
        (f"--audit-policy-file={AUDIT_POLICY_FILE}", f"--audit-log-path={AUDIT_LOG}") if options.audit else ()
    )
    return (
        f"--etcd-servers={_ETCD}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--permit-port-sharing",
        f"--tls-cert-file={CERT_FILE}",
        f"--tls-private-key-file={KEY_FILE}",
        f"--token-auth-file={TOKENS_FILE}",
        "--authorization-mode=RBAC",
        "--allow-privileged",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={SERVICE_ACCOUNT_KEY_FILE}",
        f"--service-account-signing-key-file={SERVICE_ACCOUNT_KEY_FILE}",
        *_emulated(options),
        *audit,
        *options.api_server_flags,
    )


def scheduler(kubeconfig: str, options: ClusterOptions) -> tuple[str, ...]:
    """Return the flags of the scheduler."""
    return (f"--kubeconfig={kubeconfig}", *_EAGER, *_emulated(options), *options.scheduler_flags)


def controllers(kubeconfig: str, options: ClusterOptions) -> tuple[str, ...]:
    """Return the flags of the controller manager."""
    return (
        f"--kubeconfig={kubeconfig}",
        *_EAGER,
        "--use-service-account-credentials",
        f"--service-account-private-key-file={SERVICE_ACCOUNT_KEY_FILE}",
        f"--root-ca-file={CA_FILE}",
        f"--controllers={','.join(options.controllers or ALL_CONTROLLERS)}",
        *_emulated(options),
        *options.controller_flags,
    )


def kwok(kubeconfig: str, selector: str) -> tuple[str, ...]:
    """Return the flags of one fake kubelet; the pod range must not overlap the service range."""
    nodes = (
        ("--manage-all-nodes=false", f"--manage-nodes-with-label-selector={selector}")
        if selector
        else ("--manage-all-nodes",)
    )
    return (
        f"--kubeconfig={kubeconfig}",
        f"--config={STAGES_FILE}",
        *nodes,
        "--node-lease-duration-seconds=40",
        "--cidr=10.64.0.0/16",
    )


def tokens(extra: Sequence[User] = ()) -> str:
    """Return the file by which the API server knows its users."""
    lines = (f'{user.token},{user.name},{user.name},"{",".join(user.groups)}"\n' for user in (*USERS, *extra))
    return "".join(lines)


def kubeconfig(url: str, ca_file: str, user: str, token: str) -> str:
    """Return a kubeconfig for one user; JSON is YAML."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": _CONTEXT,
        "clusters": [{"name": _CONTEXT, "cluster": {"server": url, "certificate-authority": ca_file}}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": _CONTEXT, "context": {"cluster": _CONTEXT, "user": user}}],
    }
    return json.dumps(document, indent=1)


def audit_policy() -> str:
    """Return a policy that records who called what, and the answer's code, but no bodies."""
    policy = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata"}],
    }
    return json.dumps(policy, indent=1)


def _emulated(options: ClusterOptions) -> tuple[str, ...]:
    # All three must agree: a newer scheduler would wait for ever for kinds that an older API does not serve.
    return (f"--emulated-version={options.minor}",) if options.minor else ()
