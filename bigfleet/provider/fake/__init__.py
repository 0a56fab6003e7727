"""The fake provider: serves the real contract for machines that do not exist, with injectable faults.

`bigfleet.provider.fake.provider.FakeProvider` runs in process or behind gRPC; `bigfleet.provider.fake.control_http`
serves its verbs over HTTP. Rules: `providers#fake`.
"""
