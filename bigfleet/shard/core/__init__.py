"""What a shard decides besides the engine, as pure values: no waiting, no clock, no messages."""
