"""The coordinator: which shard owns what, replicated on three replicas.

Rules: coordinator.md. `log` separates the state machine and its callers from the replicated log; `raft` is that log on pysyncobj.
"""
