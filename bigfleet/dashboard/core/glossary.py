"""Explanations of terms on the pages, shown when the pointer rests on a heading.

Must never: contradict `docs/concepts.md`, which explains them at length.
Rules: `dashboard#look`.
"""

from collections.abc import Mapping
from typing import Final

GLOSSARY: Final[Mapping[str, str]] = {
    "priority": "Higher is served first; at equal priority, higher interruption penalty first, then higher reclamation penalty.",
    "asks for": "The total wanted; the shard decides how many machines that takes.",
    "gang": "Needs with one group name that must be placed together in one domain, such as a rack.",
    "missing": "What machines that run, join or are on order do not cover.",
    "running": "Configured: machines that serve.",
    "joining": "Configuring: machines that become nodes of the cluster.",
    "on order": "Creating: machines that the provider has accepted and makes.",
    "wanted": "Machines that the shard decided to obtain and that the provider has not accepted: not asked yet, held off or failed.",
    "coverage": "Machines by how far they are: running, joining, on order, wanted.",
    "offering": "An instance type in a zone with a capacity type.",
    "slots left out": "Machines of the offering that the shard does not order for now.",
    "short for": "Cycles in a row in which the profile was short.",
    "roll-up": "All demand of a cluster in one message from its operator; when it was made.",
    "rows": "Needs in the roll-up that counts.",
    "session": "The operator's connection to the shard.",
    "queue": "Actions that wait for a worker.",
    "being done": "Actions that are being carried out.",
    "conflicts": "Proposals that another need's commit overtook; the shard plans them again.",
    "epoch": "Counts the starts of the shard.",
    "term": "Counts the elections of the coordinator.",
    "grace": "How long the work on a machine gets to leave.",
    "exposed to interruption": "What interruptions are expected to cost in an hour: probability times penalty.",
    "spot share": "Share of the hosts that the market may take back.",
    "needs": "Rows of demand, not machines: one need may take many.",
    "penalty in $": "What an interruption of the work would cost, as the need says.",
    "free": "Idle: running and paid for, but bound to no cluster.",
}
