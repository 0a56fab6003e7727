"""Demos: short stories of a fleet, played by the production code on virtual time and told by a narrator."""
