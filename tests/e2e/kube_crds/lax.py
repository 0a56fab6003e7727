"""The definitions without our rules and limits, for objects that are older than them."""

from bigfleet.kube.crds.schema import Schema


def without_additions(schema: Schema) -> Schema:
    """Return a schema as the original has it: no rules and no limits."""
    ours = ("x-kubernetes-validations", "maxLength", "maxItems", "maxProperties")
    return {
        name: {inner: without_additions(value) for inner, value in part.items()}
        if name == "properties"
        else without_additions(part)
        if isinstance(part, dict)
        else part
        for name, part in schema.items()
        if name not in ours
    }


def original(manifest: Schema) -> Schema:
    (version,) = manifest["spec"]["versions"]
    lax = without_additions(version["schema"]["openAPIV3Schema"])
    lax["properties"].get("status", {}).get("properties", {}).pop("conditions", None)
    versions = [{**version, "schema": {"openAPIV3Schema": lax}}]
    return {**manifest, "spec": {**manifest["spec"], "versions": versions}}
