"""Benchmarks of the decision engine and of reading listings, as ratios that survive a change of machine.

`bigfleet.bench.run` measures, `bigfleet.bench.report` is the public form of the figures, `bigfleet.bench.compare` lays
two of them side by side. The bars that must be met are outside the package, in `scaletest/bench`.
"""
