"""Bar 11: the production engine against the plain model of the test suite, on one and the same situation.

Why: the plain model is the rules line by line; how much faster the engine is says what its columns and memos are worth,
and that both decide the same says that they are allowed.
The situation is uber-5k as it starts, with some thousand actions to decide on; a world at rest would compare nothing.
`python -m scaletest.bench.reference` prints one JSON object. One repetition of the model, as it takes a minute.
"""

import json
import sys
import time

from bigfleet.aio.rng import SeededRng
from bigfleet.bench.measured_world import MeasuredWorld
from bigfleet.bench.meter import BenchCase, BenchMeter
from bigfleet.bench.report import result_of
from bigfleet.model.situation import IdleHolds, Situation
from bigfleet.workload.profiles import profile_named
from bigfleet.workload.worlds import START, seeded_world
from scaletest.bench.engine import SEED
from tests.reference.model import decide

PROFILE = "5k"


def measure(profile: str = PROFILE) -> dict[str, object]:
    """Both once the same, and how many times faster one of them is."""
    measured = MeasuredWorld(seeded_world(profile_named(profile), SeededRng(SEED)))
    inventory, needs = measured.world.inventory, measured.world.needs
    situation = Situation(
        now=START,
        machines=tuple(inventory.snapshot().machines()),
        needs=needs.snapshot(),
        holds=IdleHolds(),
    )
    start = time.process_time()
    wanted = decide(situation)
    plain_ms = (time.process_time() - start) * 1000
    timing = BenchMeter().measure(BenchCase(measured.full_pass))
    result = result_of("full_pass", timing)
    return {
        "profile": profile,
        "seed": SEED,
        "plain_model_cpu_ms": round(plain_ms, 1),
        "engine": result.document(),
        "times_faster": round(plain_ms / result.cpu_ms.median, 1),
        "actions": len(wanted.actions),
        "identical": measured.full_pass() == wanted,
    }


if __name__ == "__main__":
    print(json.dumps(measure(*sys.argv[1:])))
