"""The fake provider: a whole provider behind the real contract, without any machine behind it.

Why: every test of a shard should cross the wire, and meet each failure that real substrates produce once a year.
`bigfleet.provider.fake.provider.FakeProvider` is the class, in process or behind gRPC; its verbs are also served over HTTP by
`bigfleet.provider.fake.control_http`. Rules: providers 5.
"""
