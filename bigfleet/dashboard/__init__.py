"""The dashboard: read-only pages and an HTTP API over what coordinator, shards, metrics and clusters tell."""
