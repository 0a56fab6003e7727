"""`make fuzz MINUTES=60`: rounds of fuzzing until so much CPU time is used, and a line of JSON as evidence.

    python -m tests.fuzz --minutes 60 [--target NAME] [--seed N]

A finding ends the run with exit code 1, the name of the target and the smallest input that shows it; put that input into the
corpus with the fix.
"""

import argparse
import json
import platform
import sys
import traceback
from collections import Counter
from collections.abc import Sequence
from time import process_time

from tests.fuzz.rounds import SLOWDOWN, fuzz, slowdown
from tests.fuzz.targets import BY_NAME, TARGETS, Target

_EXAMPLES = 2_000


def main(argv: Sequence[str]) -> int:
    """Fuzz for some minutes; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument(
        "--minutes", type=float, default=60.0, help="of CPU time, so that a busy host fuzzes as much"
    )
    parser.add_argument("--target", action="append", choices=sorted(BY_NAME), help="repeatable; default all")
    parser.add_argument("--seed", type=int, default=1, help="of the first round")
    asked = parser.parse_args(argv)
    targets = [BY_NAME[name] for name in asked.target] if asked.target else list(TARGETS)
    end, number = process_time() + 60 * asked.minutes, asked.seed
    answers: Counter[str] = Counter()
    worst = max((_worst(target) for target in targets), default=(0.0, ""))
    if worst[0] >= SLOWDOWN:
        print(
            f"fuzz: {worst[1]}: four times the input takes {worst[0]:.1f} times the CPU time", file=sys.stderr
        )
        return 1
    while process_time() < end:
        for target in targets:
            try:
                found = fuzz(target, _EXAMPLES, number)
            except Exception:  # any error but a refusal is a finding, whatever it is
                traceback.print_exc()
                print(f"fuzz: finding in {target.name}, round {number}", file=sys.stderr)
                return 1
            answers.update({f"{target.name} {answer}": count for answer, count in found.items()})
            if process_time() >= end:
                break
        number += 1
    figures = {
        "targets": [target.name for target in targets],
        "cpu_minutes": asked.minutes,
        "rounds": f"{asked.seed} to {number - 1}",
        "inputs": answers.total(),
        "findings": 0,
        "slowdown_at_4_times_the_input": round(worst[0], 1),
        "slowest_shape": worst[1],
        "answers": dict(sorted(answers.items())),
        "python": platform.python_version(),
    }
    print(json.dumps(figures))
    return 0


def _worst(target: Target) -> tuple[float, str]:
    found = ((slowdown(target, grow), f"{target.name}, {shape}") for shape, grow in target.shapes.items())
    return max(found, default=(0.0, target.name))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
