"""The coordinator: records which shard owns what, on three Raft replicas.

Rules: coordinator.md. `log` is the seam between the state machine with its callers and the replicated log; `raft` is that log
on pysyncobj with its guards, `local_log` the same for one process and no disk.
"""
