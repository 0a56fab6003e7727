"""Providers: the contract of six calls, the kit for authors, fake, fault and hook providers, conformance."""
