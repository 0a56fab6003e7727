"""The catalogue of workloads and the seeded generator of fleets and demand.

For the fake provider, the benchmarks and the scale tests: `bigfleet.workload.profiles` names a world,
`bigfleet.workload.fleet` and `bigfleet.workload.demand` make its machines and needs from one seed (`shard#shared-packages`).
"""
