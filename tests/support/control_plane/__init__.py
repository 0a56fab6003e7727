"""A real Kubernetes control plane for tests: built once from `tests/testbed/`, started in seconds, never left behind."""
