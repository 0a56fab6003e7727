"""One target under atheris, which follows the lines and branches that an input reaches, until so much CPU time is used.

    python -m tests.fuzz.instrumented MODULE TARGET CPU_SECONDS [arguments of libFuzzer]

Why a process of its own: libFuzzer ends its process, at a finding or at its end, and what it instruments stays slow.
Must never: count time on the wall, since a run may be stopped for hours and resumed.
"""

import os
import resource
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from random import Random
from time import process_time
from types import FrameType
from typing import Final

import atheris

from tests.fuzz.trees import Form, changed, words_of

INPUT_CPU_S: Final = 10.0
"""Allowed for one input of up to 64 KiB; instrumented code is a few times slower than the code itself."""
_GRACE_CPU_S: Final = 120
_AS_BYTES: Final = 0.3
_MOST_ADDED: Final = 64


class TooSlow(BaseException):  # no `except Exception` of a parser may hold it up
    """One input took longer than any may take."""


def main(argv: Sequence[str]) -> None:
    """Fuzz; never returns, since libFuzzer ends the process."""
    module, name, seconds, *arguments = argv
    with atheris.instrument_imports(include=["bigfleet", module]):
        target = import_module(module).BY_NAME[name]
        for data in target.seeds():  # some parsers import what they need when they are first used
            target.run(data)
    end = process_time() + float(seconds)
    # What hangs inside C hears no signal of Python: the kernel ends it.
    resource.setrlimit(resource.RLIMIT_CPU, (int(end) + _GRACE_CPU_S, resource.RLIM_INFINITY))
    signal.signal(signal.SIGPROF, _too_slow)

    def one_input(data: bytes) -> None:
        if process_time() > end:
            os.kill(os.getpid(), signal.SIGUSR1)  # libFuzzer then prints its figures and ends with code 0
        signal.setitimer(signal.ITIMER_PROF, INPUT_CPU_S)
        try:
            target.run(data)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    mutator = None if target.form is None else _mutator(target.form, target.seeds())
    # To compare inputs libFuzzer starts its process again, by a shell.
    again = shlex.join([sys.executable, "-m", "tests.fuzz.instrumented", module, name, seconds])
    atheris.Setup([again, *arguments], one_input, custom_mutator=mutator)
    atheris.Fuzz()


def _mutator(form: Form, seeds: Sequence[bytes]) -> Callable[[bytes, int, int], bytes]:
    """Change the tree that the bytes are, and now and then the bytes."""
    words = words_of(form, seeds)

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        random = Random(seed)
        if random.random() < _AS_BYTES:
            return bytes(atheris.Mutate(data, most))
        return changed(data, form, words, random, _change_bytes)[:most]

    return mutate


def _change_bytes(data: bytes) -> bytes:
    return bytes(atheris.Mutate(data, len(data) + _MOST_ADDED))


def _too_slow(number: int, frame: FrameType | None) -> None:
    raise TooSlow(f"more than {INPUT_CPU_S:.0f} s of CPU time for one input")


if __name__ == "__main__":
    main(sys.argv[1:])
