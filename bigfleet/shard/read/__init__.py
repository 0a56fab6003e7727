"""What readers of a shard get: services, explanations and logs. No decision depends on this package."""
