"""A shard's client of the coordinator: it reports, and carries out or refuses instructions. Start reading at `link`.

Why a room of its own: no cycle may wait for a coordinator. So the shard does not import this room, and this room sees the shard
through `bigfleet.shard.core.views` only.
"""
