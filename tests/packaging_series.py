"""The series that `packaging#process-metrics` adds, as a running process has to write them (`packaging#process-metrics`)."""

import re

EVERY = (
    r'bigfleet_build_info\{{commit="[^"]+",component="{component}",version="[^"]+"\}} 1\.0',
    r'bigfleet_event_loop_lag_seconds_bucket\{{le="[^"]+"\}} ',
    r'bigfleet_tls_certificate_not_after_timestamp_seconds\{{role="{role}"\}} ',
)
OWN = {
    "shard": (
        "bigfleet_shard_last_reconcile_success_timestamp_seconds ",
        "bigfleet_shard_self_paused ",
        "bigfleet_shard_audit_write_errors_total ",
    ),
    "operator": ("bigfleet_operator_session_up ", "bigfleet_operator_last_ack_timestamp_seconds "),
}


def missing_series(page: str, component: str, role: str) -> list[str]:
    """Return the series that a page of metrics of a process under TLS lacks, as patterns."""
    wanted = [pattern.format(component=component, role=role) for pattern in EVERY]
    wanted += OWN.get(component, ())
    return [pattern for pattern in wanted if not re.search(f"^{pattern}", page, re.MULTILINE)]
