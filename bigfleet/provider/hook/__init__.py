"""The hook provider: a static inventory, and commands of its owner that do the work.

Why: a shop with bare metal has scripts already; with them it has a provider the same day, without writing a server.
It stands on `bigfleet.provider.kit` as any author's provider does.
Must never: run a command through a shell, or let a hook see more than its machine, its blob and the environment it was given.
Rules: providers 7.
"""
