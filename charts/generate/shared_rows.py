"""Values that several charts or components have alike.

Must never: hold a value that only one component knows.
Rules: `packaging#chart-values`, `packaging#pod-security`.
"""

from typing import Any, Final

from charts.generate.value import (
    Value,
    choice,
    duration,
    objects,
    structure,
    switch,
    text,
    texts,
    whole,
    words,
)

UID: Final = 65532
POD_SECURITY: Final[dict[str, Any]] = {
    "runAsNonRoot": True,
    "runAsUser": UID,
    "runAsGroup": UID,
    "fsGroup": UID,
    "fsGroupChangePolicy": "OnRootMismatch",
    "seccompProfile": {"type": "RuntimeDefault"},
}
CONTAINER_SECURITY: Final[dict[str, Any]] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
RUNBOOKS: Final = "https://bigfleet.example/docs/runbooks"


def image_rows() -> list[Value]:
    """Return where the image is pulled from."""
    return [
        text("image.registry", "", "Host of the registry, put before the repository with a slash"),
        text("image.repository", "bigfleet", "Name of the image"),
        text(
            "image.tag", "", "Tag; empty is v and the chart's appVersion, which is what a release publishes"
        ),
        text("image.digest", "", "Digest such as sha256:…; beats the tag", check="digest"),
        choice(
            "image.pullPolicy",
            "IfNotPresent",
            "When the image is pulled",
            ("Always", "IfNotPresent", "Never"),
        ),
        objects("imagePullSecrets", "Secrets for pulling, each as a map with name"),
    ]


def naming_rows(name: str) -> list[Value]:
    """Return what objects are called and where they go."""
    return [
        text("namespace", "", "Namespace of all objects; empty is the namespace of the release"),
        text("nameOverride", name, "Name that all object names begin with", check="name"),
    ]


def security_rows() -> list[Value]:
    """Return what the pods may do on their node."""
    return [
        structure("podSecurityContext", POD_SECURITY, "Security context of every pod"),
        structure("securityContext", CONTAINER_SECURITY, "Security context of every container"),
    ]


def account_rows() -> list[Value]:
    """Return the service account of the pods."""
    return [
        switch("serviceAccount.create", True, "Make a service account"),
        text("serviceAccount.name", "", "Its name; empty is nameOverride, or default if none is made"),
        words("serviceAccount.annotations", {}, "Annotations of the service account"),
    ]


def monitor_rows() -> list[Value]:
    """Return what Prometheus gets."""
    return [
        switch("podMonitor.enabled", False, "Make PodMonitors for the Prometheus operator"),
        duration("podMonitor.interval", "15s", "Time between two scrapes"),
        words("podMonitor.labels", {}, "Further labels of the PodMonitors, by which Prometheus selects them"),
    ]


def metrics_from_row() -> Value:
    """Return who may scrape; the port has no secrets, and still tells names and numbers of a fleet."""
    return objects(
        "networkPolicy.metricsFrom",
        "Who may scrape metrics, as peers such as the namespace of Prometheus; empty is no other pod",
        ({"podSelector": {}},),
    )


def placing_rows(prefix: str = "") -> list[Value]:
    """Return how pods of a component are placed and what is added to them; `prefix` ends in a dot."""
    return [
        words(f"{prefix}nodeSelector", {}, "Labels that a node must have"),
        objects(f"{prefix}tolerations", "Tolerations of the pods"),
        structure(f"{prefix}affinity", {}, "Affinity of the pods; replaces the chart's own"),
        text(f"{prefix}priorityClassName", "", "PriorityClass of the pods"),
        words(f"{prefix}podAnnotations", {}, "Further annotations of the pods"),
        words(f"{prefix}podLabels", {}, "Further labels of the pods"),
        texts(f"{prefix}extraArgs", "Further flags, after those of the chart; the last one wins"),
        objects(f"{prefix}extraEnv", "Further environment variables"),
        objects(f"{prefix}extraVolumes", "Further volumes"),
        objects(f"{prefix}extraVolumeMounts", "Where further volumes are mounted"),
        whole(
            f"{prefix}terminationGracePeriodSeconds",
            30,
            "Time between SIGTERM and SIGKILL; longer than the program's own --shutdown-grace",
            least=1,
        ),
        choice(
            f"{prefix}logLevel",
            "info",
            "Least severity that is logged",
            ("debug", "info", "warning", "error"),
        ),
    ]


def resources_row(path: str, cpu: str, memory: str, limit: str) -> Value:
    """Return requests and limits; no CPU limit, as throttling stalls the event loop."""
    default = {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": limit}}
    return structure(
        path, default, "Requests and limits; without a CPU limit, as throttling stalls the event loop"
    )
