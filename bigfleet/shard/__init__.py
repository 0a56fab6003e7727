"""The shard: owns machines, serves clusters, carries out what the engine decides; start reading at README.md."""
