"""The values of the chart `bigfleet-operator`.

Must never: rename a value of the original; its users keep their files.
Rules: `packaging#agent-charts`, `operator#process`, `operator#operator-charts`.
"""

from charts.generate.agent_rows import agent_rows
from charts.generate.value import Value, duration, port, share, switch, text, whole

ROWS: tuple[Value, ...] = (
    text("clusterID", "", "Stable id of this cluster; needed", check="clusterID"),
    text(
        "shardAddress", "", "host:port of the shard that serves this cluster; needed", check="needed.address"
    ),
    text(
        "tls.secretName",
        "",
        "Secret with tls.crt, tls.key and ca.crt, and the URI bigfleet://cluster/ID; needed unless insecure",
    ),
    switch(
        "insecure", False, "Dial the shard without TLS, and give join data to any process that answers there"
    ),
    text(
        "bootstrapTemplate",
        "",
        "Template of what a machine needs to join; empty is a stub that boots nothing",
    ),
    text(
        "bootstrapTemplateSecret.name", "", "Secret with that template, for templates that hold a join token"
    ),
    text("bootstrapTemplateSecret.key", "bootstrap.tmpl", "Its key"),
    whole("bootstrapTTLSeconds", 0, "Seconds for which what the template renders is good, 0 for not stated"),
    port("metricsPort", 8770, "Port of metrics and probes"),
    whole("ackConcurrency", 16, "Requests that are acknowledged at once; 64 above 1,000 pending", least=1),
    duration("rollupInterval", "10s", "Time between two roll-ups"),
    duration("cacheSyncTimeout", "10m", "How long the first lists of the cluster's objects may take"),
    switch("watchPods", True, "Keep a small part of every pod, to learn what nodes must hold beside it"),
    switch("fragments", True, "Ask for machines on top of the sum for pods that have no node beside it"),
    duration("stuckAfter", "30s", "How long a pod is Unschedulable before that"),
    share("fragmentsShare", 0.25, "Most that is asked for on top, as a part of the demand"),
    switch("orphanSweep", True, "Delete UpcomingNodes of machines that left while nobody listened"),
    switch(
        "crds.install",
        True,
        "Install and upgrade the custom resource definitions; they stay when the chart is removed",
    ),
    *agent_rows("bigfleet-operator", qps_hint="; 200 above 5,000 requests"),
)
