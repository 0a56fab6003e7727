"""The values of the chart `bigfleet-unschedulable-pod-controller`.

Must never: rename a value of the original; its users keep their files.
Rules: `packaging#agent-charts`, `operator#process`, `operator#operator-charts`.
"""

from charts.generate.agent_rows import agent_rows
from charts.generate.value import Value, duration, port, switch, whole

_PENALTY = {"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?$"}

ROWS: tuple[Value, ...] = (
    Value(
        "priorityClassDefaults",
        {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "additionalProperties": False,
                "properties": {"interruptionPenalty": _PENALTY, "reclamationPenalty": _PENALTY},
            },
        },
        {},
        "Penalties by PriorityClass: interruptionPenalty and reclamationPenalty as decimal text, for pods that say none themselves",
    ),
    port("metricsPort", 8080, "Port of metrics and probes"),
    whole("concurrency", 16, "Pods that are worked on at once", least=1),
    duration("resyncInterval", "10m", "Time between two comparisons of all pods with all requests"),
    switch("excludeDaemonSetPods", False, "Leave out pods of DaemonSets and mirror pods"),
    switch("podEvents", True, "Tell pods by events what was asked for and which node is coming"),
    *agent_rows(
        "bigfleet-unschedulable-pod-controller",
        qps_hint="; 200, with a burst of 1,000, where hundreds of pods come at once",
    ),
)
