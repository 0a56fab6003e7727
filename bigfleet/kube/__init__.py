"""The Kubernetes client: reflector, store, writes, eviction, leases, custom resources. No other room imports a Kubernetes library."""
