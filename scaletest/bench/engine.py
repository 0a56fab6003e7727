"""The engine's figures for the bars, in a process of their own so that its memory is returned at the end.

`python -m scaletest.bench.engine 5k,50k,500k full_pass,zero_change` runs some benchmarks on several profiles one after
the other and prints their reports as one JSON list; without names it runs all benchmarks.
"""

import gc
import json
import sys

from bigfleet.bench.meter import BenchMeter
from bigfleet.bench.plans import names_of, plan_named
from bigfleet.bench.run import run

SEED = 1


def main(profiles: str, names: str = "") -> None:
    """Measure and print."""
    reports = []
    for profile in profiles.split(","):
        plan = plan_named(profile)
        asked = names_of(plan, [name for name in names.split(",") if name])
        reports.append(run(plan, asked, SEED, BenchMeter()).document())
        gc.collect()
    print(json.dumps(reports))


if __name__ == "__main__":
    main(*sys.argv[1:])
