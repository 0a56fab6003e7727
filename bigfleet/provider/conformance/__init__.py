"""The conformance kit: points at any provider, in any language, and says whether it keeps the contract.

Why: a shard trusts what a provider says; what the trust rests on must be checkable by its author.

    report = await run("127.0.0.1:9000", system_settings(profiles=(Profile.CORE, Profile.CLOUD)))

with `run` of `bigfleet.provider.conformance.run` and `system_settings` of `bigfleet.provider.conformance.system`.
Must never: know a provider but by its six calls; nothing here imports the kit for authors.
Rules: `providers#conformance`, `wire#provider`, `wire#codes`, `providers#empty-token`, `providers#idempotency-key`,
`providers#states`, `providers#argument-limits`.
"""
