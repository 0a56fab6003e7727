"""A real Kubernetes control plane for tests: built once from `testbed/`, started in seconds, never left behind."""
