"""The behaviours, by family; `bigfleet.provider.conformance.catalogue` puts them in order."""
