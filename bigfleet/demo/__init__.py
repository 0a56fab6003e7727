"""Demos: short stories of a fleet, run by the production code on virtual time."""
