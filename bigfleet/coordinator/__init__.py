"""The coordinator: which shard owns what, replicated on three replicas.

Rules: coordinator.md. `log` is the seam between the state machine with its callers and the replicated log; `raft` is that log
on pysyncobj with its guards.
"""
