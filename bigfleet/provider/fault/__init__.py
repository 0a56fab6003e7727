"""The fault provider: fails on command, by the name of the cluster, for the fault lane of the conformance kit.

`bigfleet.provider.fault.backend` is all there is to it; the kit does the rest. Rules: providers 6.
"""
