"""Providers: the contract of six calls, the kit for authors, and the programs that stand on it."""
