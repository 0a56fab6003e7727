"""Providers: the contract of six calls, the kit for authors, and the providers built with it."""
