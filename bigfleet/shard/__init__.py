"""The shard: holds inventory and demand, runs the cycle, acts on a provider, serves operators."""
