"""The values of the chart `bigfleet`: coordinator, shards, dashboard.

Must never: rename a value of the original; its users keep their files.
Rules: `packaging#chart-values`, `packaging#network-policy`, `coordinator#chart`.
"""

from charts.generate.shared_rows import (
    RUNBOOKS,
    account_rows,
    image_rows,
    metrics_from_row,
    monitor_rows,
    naming_rows,
    placing_rows,
    resources_row,
    security_rows,
)
from charts.generate.value import (
    Value,
    address,
    choice,
    duration,
    objects,
    port,
    share,
    structure,
    switch,
    text,
    texts,
    whole,
    words,
)

_FILES = "Secret with tls.crt, tls.key and ca.crt"
_SPREAD = ("required", "preferred", "none")

_COORDINATOR: tuple[Value, ...] = (
    switch("coordinator.enabled", True, "Install a coordinator"),
    choice("coordinator.replicas", 3, "How many replicas form the coordinator", (1, 3)),
    switch("coordinator.bootstrap", True, "Form a cluster where there is none; may stay on for life"),
    text("coordinator.dataDir", "/var/lib/bigfleet", "Where journal and identity are kept"),
    resources_row("coordinator.resources", "200m", "256Mi", "1Gi"),
    text("coordinator.storage.size", "10Gi", "Size of each replica's volume claim"),
    text("coordinator.storage.storageClassName", "", "Storage class; empty is the default class"),
    port("coordinator.service.grpcPort", 7790, "gRPC port"),
    port("coordinator.service.raftPort", 7791, "Port among replicas"),
    port("coordinator.service.metricsPort", 8790, "Port of metrics and probes"),
    text(
        "coordinator.tls.secretName",
        "",
        f"{_FILES}, with the URI bigfleet://admin and the DNS names of the service; empty is one of the release's own",
    ),
    text(
        "coordinator.raftSecret.existingSecret",
        "",
        "Secret whose key secret holds at least 32 random bytes; needed where charts are rendered without a cluster; "
        "empty makes one and keeps it",
    ),
    switch("coordinator.snapshotExport.enabled", False, "Let the leader export snapshots"),
    duration("coordinator.snapshotExport.interval", "5m", "Time between two exports"),
    whole("coordinator.snapshotExport.keep", 12, "How many exports are kept", least=1),
    structure(
        "coordinator.snapshotExport.volume",
        {},
        "Volume source for exports, such as persistentVolumeClaim; empty keeps them beside the data, where they are lost with it",
    ),
    duration(
        "coordinator.rebalanceInterval",
        "5s",
        "How often an early version of the original looked for machines to move between shards",
        kept=True,
    ),
    duration("coordinator.shutdownGrace", "5s", "Time that calls in flight get after SIGTERM"),
    choice("coordinator.spread.hostname", "required", "Whether replicas keep to different nodes", _SPREAD),
    choice("coordinator.spread.zone", "preferred", "Whether replicas keep to different zones", _SPREAD),
    *placing_rows("coordinator."),
)

_SHARD: tuple[Value, ...] = (
    switch("shard.enabled", True, "Install shards"),
    whole("shard.replicas", 1, "How many shards there are; each serves its own clusters", least=1, most=1000),
    text("shard.dataDir", "/var/lib/bigfleet-shard", "Where the epoch is kept"),
    resources_row("shard.resources", "500m", "512Mi", "8Gi"),
    port("shard.service.grpcPort", 7780, "gRPC port"),
    port("shard.service.metricsPort", 8780, "Port of metrics and probes"),
    text(
        "shard.storage.size",
        "1Gi",
        "Size of each shard's volume claim; holds the epoch, and the audit log if put there",
    ),
    text("shard.storage.storageClassName", "", "Storage class; empty is the default class"),
    address("shard.provider.addr", "Provider of all shards; empty runs a fake one inside each"),
    texts(
        "shard.providerAddrs",
        "Provider of each shard by its ordinal, as many as replicas; beats provider.addr",
    ),
    switch("shard.actuationPaused", False, "Kill switch: decide, and carry nothing out"),
    share(
        "shard.reclaimCapFraction",
        0.05,
        "Share of a cluster's machines that one cycle may release, 0 for no cap",
    ),
    switch("shard.emptyRollupGuard", True, "Hold back roll-ups that look like a lost cache"),
    switch("shard.dryRun", False, "Shadow mode: decide and log, touch nothing"),
    text("shard.auditLog", "", "File of one JSON line per action, best under dataDir; empty is none"),
    switch("shard.auditStrict", False, "Carry nothing out while the audit log cannot be written"),
    text("shard.auditMaxBytes", "100MiB", "Size at which the audit log begins anew", check="bytes"),
    whole("shard.auditKeep", 5, "Old audit logs that are kept"),
    whole("shard.executeConcurrency", 16, "Actions carried out side by side", least=1, most=10_000),
    whole("shard.maxActionsPerCycle", 0, "Actions that one cycle may start, 0 for no limit"),
    duration("shard.cycleInterval", "10s", "Time between two regular cycles"),
    switch("shard.incrementalReconcile", False, "Ask the provider for changes only"),
    switch(
        "shard.sharedProvider",
        False,
        "Share provider.addr among the shards: each owns the machines of the domains that the coordinator assigns",
    ),
    text(
        "shard.partitionKey",
        "topology.kubernetes.io/zone",
        "Label key that divides the machines of a shared provider",
    ),
    duration("shard.coordinatorHeartbeatInterval", "10s", "Time between two reports to the coordinator"),
    address(
        "shard.coordinatorAddress",
        "Coordinator to report to; empty is the one of this release, if it has one",
    ),
    duration("shard.shutdownGrace", "10s", "Time that calls in flight get after SIGTERM"),
    text(
        "shard.tls.secretName",
        "",
        f"{_FILES} and the URI bigfleet://shard/NAME-shard-0; for one shard only, as the certificate names it",
    ),
    text(
        "shard.tls.secretNamePattern",
        "",
        "One such Secret per shard, with %d for its ordinal; every shard can then read the keys of all",
        check="pattern",
    ),
    switch(
        "shard.tls.csi.enabled",
        False,
        "A certificate per pod from the cert-manager CSI driver; no pod sees another's key",
    ),
    text("shard.tls.csi.issuerName", "", "Issuer that the driver asks"),
    choice("shard.tls.csi.issuerKind", "Issuer", "Its kind", ("Issuer", "ClusterIssuer")),
    switch("shard.external.enabled", False, "One Service per shard for operators in other clusters"),
    choice(
        "shard.external.type",
        "LoadBalancer",
        "Type of these Services",
        ("LoadBalancer", "NodePort", "ClusterIP"),
    ),
    words("shard.external.annotations", {}, "Annotations of these Services"),
    text(
        "shard.external.hostnamePattern",
        "",
        "Name under which operators reach a shard, with %d for its ordinal; also advertised, and part of the certificate",
        check="pattern",
    ),
    choice("shard.spread.hostname", "preferred", "Whether shards keep to different nodes", _SPREAD),
    choice("shard.spread.zone", "none", "Whether shards keep to different zones", _SPREAD),
    *placing_rows("shard."),
)

_CERTIFICATES: tuple[Value, ...] = (
    text(
        "certificates.authoritySecret",
        "",
        "Secret with tls.crt and tls.key of an authority that is yours, which then signs; empty makes one, in the Secret NAME-ca",
    ),
    texts(
        "certificates.clusters",
        "Ids of clusters whose operators get a certificate; its Secret NAME-operator-ID-tls is copied into that cluster",
    ),
    Value(
        "certificates.further",
        {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["secret", "uri"],
                "properties": {
                    "secret": {"type": "string", "minLength": 1, "description": "Name of its Secret."},
                    "uri": {"type": "string", "description": "The bigfleet:// URI that it carries."},
                    "dnsNames": {
                        "type": "array",
                        "items": {"type": "string"},
                        "description": "DNS names under which its holder is dialled.",
                    },
                },
            },
        },
        [],
        "Further certificates, each a map with secret, uri and dnsNames: those of providers and of people",
    ),
    whole("certificates.days", 90, "For how many days the job signs a certificate", least=2, most=3650),
    whole("certificates.renewBeforeDays", 30, "The job signs again when fewer days are left", least=1),
    text(
        "certificates.schedule",
        "17 3 * * *",
        "When the job looks for certificates that end soon, as cron writes it; empty leaves that to upgrades",
    ),
)

_DASHBOARD: tuple[Value, ...] = (
    switch("dashboard.enabled", False, "Install the read-only dashboard"),
    port("dashboard.port", 8760, "HTTP port"),
    text(
        "dashboard.tokenSecret",
        "",
        "Secret whose key token readers must present; needed where charts are rendered without a cluster; empty makes one and keeps it",
    ),
    text(
        "dashboard.tls.secretName",
        "",
        f"{_FILES} and the URI bigfleet://readonly, for reading coordinator and shards",
    ),
    text("dashboard.prometheusUrl", "", "Prometheus to ask instead of scraping"),
    text("dashboard.grafanaUrl", "", "Address that pages link to"),
    text("dashboard.basePath", "/", "Prefix behind a reverse proxy"),
    texts(
        "dashboard.allowedHosts",
        "Further host names by which readers reach the dashboard; its Service's names and dashboard.ingress.host, unless it is a pattern, are allowed",
    ),
    objects(
        "dashboard.from",
        "Who may reach the dashboard, as peers of a NetworkPolicy; empty is the pods of its namespace, and every address with an Ingress",
    ),
    switch(
        "dashboard.ingress.enabled", False, "Make an Ingress; needs TLS, by tlsSecretName or by annotations"
    ),
    text("dashboard.ingress.className", "", "Class of the Ingress"),
    text("dashboard.ingress.host", "", "Host of the Ingress"),
    text("dashboard.ingress.tlsSecretName", "", "Secret of the Ingress's own certificate"),
    words("dashboard.ingress.annotations", {}, "Annotations of the Ingress"),
    resources_row("dashboard.resources", "50m", "128Mi", "512Mi"),
    *placing_rows("dashboard."),
)

ROWS: tuple[Value, ...] = (
    *image_rows(),
    *naming_rows("bigfleet"),
    *_COORDINATOR,
    *_SHARD,
    *_DASHBOARD,
    switch(
        "insecure",
        False,
        "Run without TLS, so that any process that reaches a port may speak as any cluster, shard or administrator; nothing else "
        "gives plaintext",
    ),
    *_CERTIFICATES,
    choice(
        "certManager.enabled",
        "auto",
        "Let cert-manager sign the certificates; auto does where its kinds are known, unless the job has made the authority before; "
        "false is the job",
        ("auto", True, False),
    ),
    text(
        "certManager.issuerRef.name",
        "",
        "Issuer of the Certificates; empty makes an authority of the release's own",
    ),
    choice("certManager.issuerRef.kind", "Issuer", "Its kind", ("Issuer", "ClusterIssuer")),
    text("certManager.issuerRef.group", "cert-manager.io", "Its API group"),
    duration("certManager.duration", "720h", "Validity of the Certificates"),
    duration(
        "certManager.renewBefore",
        "240h",
        "How long before their end they are renewed; rotated files are used without a restart",
    ),
    *security_rows(),
    *account_rows(),
    switch(
        "rbac.create",
        True,
        "Make account and role of the job that keeps certificates; false takes serviceAccount.name, which must have its rights",
    ),
    *monitor_rows(),
    switch("prometheusRule.enabled", False, "Make a PrometheusRule with the alerts for what is installed"),
    words("prometheusRule.labels", {}, "Further labels of the PrometheusRule"),
    text("prometheusRule.runbookBaseUrl", RUNBOOKS, "Where the runbook pages are"),
    texts("prometheusRule.disabled", "Names of alerts to leave out"),
    switch("grafanaDashboards.enabled", False, "Make one ConfigMap per Grafana board"),
    words("grafanaDashboards.labels", {"grafana_dashboard": "1"}, "Labels by which Grafana finds them"),
    switch("networkPolicy.enabled", True, "Make NetworkPolicies"),
    switch("networkPolicy.egress.enabled", False, "Restrict what pods may dial, too"),
    objects("networkPolicy.egress.extra", "Further egress rules for every component"),
    objects(
        "networkPolicy.operatorFrom",
        "Who may reach shards, as peers; empty is the pods of the namespace, and every address with shard.external.enabled",
    ),
    objects(
        "networkPolicy.adminFrom",
        "Who may reach the coordinator besides shards and replicas, as peers",
        ({"podSelector": {}},),
    ),
    metrics_from_row(),
)
