"""A shard's client of the coordinator: sends reports, carries out or refuses instructions.

Why a room of its own: no cycle may wait for a coordinator. So the shard does not import this room, and this room sees the shard
through `bigfleet.shard.core.views` only.
"""
