"""The HTTP API: the original's routes and our own, as functions from parameters to JSON."""
