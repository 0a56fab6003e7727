"""Operator sessions of a shard: streams, roll-ups coming in, node states going out."""
