"""Benchmarks of the engine and of reading listings, as ratios that compare across machines.

`bigfleet.bench.run` measures, `bigfleet.bench.report` is the public form of the figures, `bigfleet.bench.compare` lays
two of them side by side. The bars that must be met are outside the package, in `scaletest/bench`.
"""
