"""What keeps two pods of one kind off one node: required anti-affinity over the host name, and host ports.

Why: pod controller and operator must agree on it: one asks for machines by it, the other judges by it where pods would fit.
Must never: raise, whatever a pod holds.
Rules: `operator#pod-affinity`.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from bigfleet.kube.selectors import selects
from bigfleet.model.profile import HOST_NAME_KEY

MIRROR: Final = "kubernetes.io/config.mirror"
DAEMON_SET: Final = "DaemonSet"
_NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
_EVERY_ADDRESS: Final = ("", "0.0.0.0", "::")  # noqa: S104  compared, never listened on


class HostPort(NamedTuple):
    """A port of the node that a pod takes; an empty address is every address."""

    address: str
    protocol: str
    port: int

    def collides(self, other: "HostPort") -> bool:
        """Return whether two pods with these ports cannot share a node."""
        if (self.port, self.protocol) != (other.port, other.protocol):
            return False
        return not self.address or not other.address or self.address == other.address


def host_ports(spec: Mapping[str, Any]) -> tuple[HostPort, ...]:
    """Return the ports of its node that a pod takes as long as it runs."""
    sidecars = (one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always")
    found = {
        HostPort(_address(port.get("hostIP")), str(port.get("protocol") or "TCP"), port["hostPort"])
        for container in (*(spec.get("containers") or ()), *sidecars)
        for port in container.get("ports") or ()
        if isinstance(port.get("hostPort"), int) and port["hostPort"] > 0
    }
    return tuple(sorted(found))


def keeps_apart(pod: Mapping[str, Any]) -> bool:
    """Return whether required anti-affinity over the host name keeps a pod off the nodes of its own kind."""
    metadata = pod["metadata"]
    labels: Mapping[str, str] = metadata.get("labels") or {}
    affinity = ((pod.get("spec") or {}).get("affinity") or {}).get("podAntiAffinity") or {}
    return any(
        term.get("topologyKey") == HOST_NAME_KEY
        and _concerns(term, str(metadata.get("namespace", "")))
        and selects(term.get("labelSelector"), labels)
        for term in affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    )


def belongs_to_its_node(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod came with its node: a mirror pod, or one of a DaemonSet."""
    metadata = pod["metadata"]
    owners = metadata.get("ownerReferences") or ()
    return MIRROR in (metadata.get("annotations") or {}) or any(
        owner.get("kind") == DAEMON_SET and owner.get("controller") for owner in owners
    )


def is_one_per_host(pod: Mapping[str, Any]) -> bool:
    """Return whether each pod of this kind needs a machine of its own.

    Not one that came with its node: it would ask for a machine more, on which one more of its kind would start, without end.
    """
    alone = bool(host_ports(pod.get("spec") or {})) or keeps_apart(pod)
    return alone and not belongs_to_its_node(pod)


def _concerns(term: Mapping[str, Any], namespace: str) -> bool:
    """Return whether a term is about pods of a namespace; of the labels of namespaces only the name is known."""
    names, selector = term.get("namespaces") or (), term.get("namespaceSelector")
    if not names and selector is None:
        return True
    return namespace in names or selects(selector, {_NAMESPACE_NAME: namespace})


def _address(text: object) -> str:
    return "" if text is None or text in _EVERY_ADDRESS else str(text)
