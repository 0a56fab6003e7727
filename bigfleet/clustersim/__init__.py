"""A simulated cluster: the operator's side of a session, with demand from a file instead of Kubernetes."""
