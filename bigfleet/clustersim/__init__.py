"""A cluster without Kubernetes: speaks the operator's side of a session from a file of demand."""
