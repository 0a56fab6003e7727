"""The hook provider: an inventory in files, and executable hooks that act on its machines.

It is built on `bigfleet.provider.kit`, as any author's provider is.
Must never: run a command through a shell, or show a hook more than its machine, its blob and its environment.
Rules: `providers#hook`.
"""
