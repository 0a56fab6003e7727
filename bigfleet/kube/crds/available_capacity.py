"""AvailableCapacity: what is idle, or could be bought, for a profile that the cluster asks for.

Why: a planner sees a hint with its price without access to the shard. It is a hint and reserves nothing.
Rules: `wire#crd-available-capacity`, `operator#available-capacity`.
"""

from typing import Final

from bigfleet.kube.crds.definition import Definition, PrinterColumn
from bigfleet.kube.crds.schema import fields, listing, quantity, requirement, resources, text, whole_number

AVAILABILITIES: Final = ("None", "Low", "Medium", "High")

AVAILABLE_CAPACITY: Final = Definition(
    kind="AvailableCapacity",
    plural="availablecapacities",
    short_names=("avc",),
    namespaced=False,
    description="An AvailableCapacity is a hint at what is idle or could be bought now. It reserves nothing.",
    spec=fields(
        {
            "availability": text("How likely the capacity is there when asked for.", words=AVAILABILITIES),
            "availableCount": whole_number("How many machines there are."),
            "cost": quantity("Dollars per hour of one machine."),
            "requirements": listing(
                requirement("The operator as the profile has it."), "What the machines satisfy."
            ),
            "resources": resources("What each of the machines offers at least; may be empty."),
        },
        required=("availability", "availableCount", "cost", "resources"),
        description="The hint, written by the operator alone.",
    ),
    status=fields({}, description="Without fields."),
    columns=(
        PrinterColumn("Availability", "string", ".spec.availability", "None, Low, Medium or High."),
        PrinterColumn("Available", "integer", ".spec.availableCount", "Number of machines."),
        PrinterColumn("Cost", "string", ".spec.cost", "Dollars per hour of one machine."),
    ),
)
