"""The dashboard: read-only pages and an HTTP API over coordinator, shards, metrics and clusters."""
