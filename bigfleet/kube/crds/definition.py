"""The definition of one kind, and the CustomResourceDefinition made from it.

Must never: hold more than one version; `v1alpha1` grows by fields only (ADR-0084).
Rules: `wire#custom-resources`, `operator#custom-resources`.
"""

from dataclasses import dataclass
from typing import Final

from bigfleet.kube.crds.schema import CATEGORY, GROUP, VERSION, Schema, fields

_API_VERSION_NOTE: Final = "The version of this form of the object: bigfleet.lucy.sh/v1alpha1."
_KIND_NOTE: Final = "The kind of the object."


@dataclass(frozen=True, slots=True)
class PrinterColumn:
    """One column of `kubectl get`."""

    name: str
    type: str
    json_path: str
    description: str

    def as_document(self) -> Schema:
        """Return an entry of `additionalPrinterColumns`."""
        return {
            "name": self.name,
            "type": self.type,
            "jsonPath": self.json_path,
            "description": self.description,
        }


AGE: Final = PrinterColumn("Age", "date", ".metadata.creationTimestamp", "Time since the object was created.")


@dataclass(frozen=True, slots=True)
class Definition:
    """One kind of our group."""

    kind: str
    plural: str
    short_names: tuple[str, ...]
    namespaced: bool
    description: str
    spec: Schema
    status: Schema
    columns: tuple[PrinterColumn, ...]
    selectable: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the definition object."""
        return f"{self.plural}.{GROUP}"

    @property
    def singular(self) -> str:
        """The singular word that kubectl accepts."""
        return self.kind.lower()

    def schema(self) -> Schema:
        """Return the structural schema of the whole object."""
        properties: dict[str, Schema] = {
            "apiVersion": {"type": "string", "description": _API_VERSION_NOTE},
            "kind": {"type": "string", "description": _KIND_NOTE},
            "metadata": {"type": "object"},
            "spec": self.spec,
            "status": self.status,
        }
        return fields(properties, required=("spec",), description=self.description)

    def manifest(self) -> Schema:
        """Return the CustomResourceDefinition object."""
        version: Schema = {
            "name": VERSION,
            "served": True,
            "storage": True,
            "subresources": {"status": {}},
            "additionalPrinterColumns": [column.as_document() for column in self.columns],
            "schema": {"openAPIV3Schema": self.schema()},
        }
        if self.selectable:
            version["selectableFields"] = [{"jsonPath": path} for path in self.selectable]
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self.name},
            "spec": {
                "group": GROUP,
                "names": {
                    "categories": [CATEGORY],
                    "kind": self.kind,
                    "listKind": f"{self.kind}List",
                    "plural": self.plural,
                    "shortNames": list(self.short_names),
                    "singular": self.singular,
                },
                "scope": "Namespaced" if self.namespaced else "Cluster",
                "versions": [version],
            },
        }
