"""The fault provider: fails on command, for the fault profile of the conformance kit. Rules: `providers#fault-convention`."""
