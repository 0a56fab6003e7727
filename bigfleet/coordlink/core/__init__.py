"""The decisions of the coordinator client; no I/O."""
