"""A shard's client of the coordinator: sends reports, carries out or refuses instructions.

Why a room of its own: the shard must not know it. It sees the shard through `bigfleet.shard.core.views` and nothing else,
so that a coordinator that is away, wrong or old can never be waited for by a cycle. Start reading at `link`.
"""
