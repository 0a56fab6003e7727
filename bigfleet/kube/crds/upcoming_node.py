"""UpcomingNode: a machine on its way into the cluster, in it, or on its way out.

Why: people and dashboards of the cluster see what is coming without access to the shard.
Must never: be read by a shard.
Rules: `wire#crd-upcoming-node`, `operator#upcoming-node`.
"""

from typing import Final

from bigfleet.kube.crds.definition import AGE, Definition, PrinterColumn
from bigfleet.kube.crds.schema import fields, listing, resources, text, text_map, time

PHASES: Final = ("Provisioning", "Launched", "Registered", "Ready", "Draining", "Drained", "Failed")

_TAINT: Final = fields(
    {
        "key": text("The taint key."),
        "value": text("The taint value."),
        "effect": text("NoSchedule, PreferNoSchedule or NoExecute."),
        "timeAdded": time("When the taint was added."),
    },
    required=("effect", "key"),
)

_NODE_REF: Final = fields(
    {
        "apiVersion": text("API version of the object."),
        "fieldPath": text("A part of the object; unused."),
        "kind": text("Kind of the object: Node."),
        "name": text("Name of the Node."),
        "namespace": text("Namespace of the object; a Node has none."),
        "resourceVersion": text("Version of the object; unused."),
        "uid": text("UID of the Node."),
    },
    description="The Node that the machine registered as, once it is known.",
    atomic=True,
)

UPCOMING_NODE: Final = Definition(
    kind="UpcomingNode",
    plural="upcomingnodes",
    short_names=("upn",),
    namespaced=False,
    description="An UpcomingNode shows a machine bound to this cluster. It lives as long as the machine is bound.",
    spec=fields(
        {
            "labels": text_map("Labels that the node registers with."),
            "resources": resources("Allocatable amounts that the node registers with."),
            "taints": listing(_TAINT, "Taints that the node registers with."),
        },
        required=("resources",),
        description="The shape of the node.",
    ),
    status=fields(
        {
            "phase": text("How far the machine is; empty counts as Provisioning.", words=PHASES),
            "nodeRef": _NODE_REF,
            "providerID": text("The provider's id of the machine."),
            "provisioningStartTime": time("When the machine was first seen; never moved."),
            "lastError": text("What went wrong, while the phase is Failed."),
        },
        required=("phase",),
        description="Written by the operator alone.",
    ),
    columns=(
        PrinterColumn("Phase", "string", ".status.phase", "How far the machine is."),
        PrinterColumn("Node", "string", ".status.nodeRef.name", "The Node, once it is known."),
        AGE,
    ),
)
