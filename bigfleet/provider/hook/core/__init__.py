"""The pure part of the hook provider: inventory, protocol and exit codes."""
