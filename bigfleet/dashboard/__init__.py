"""The dashboard: read-only pages and an HTTP API over what the coordinator, shards, metrics and clusters report."""
