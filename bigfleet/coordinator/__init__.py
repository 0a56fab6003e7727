"""The coordinator: records which shard owns what, on three Raft replicas.

`log` separates the state machine and its callers from the replicated log; `raft` is that log on pysyncobj.
"""
