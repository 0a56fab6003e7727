"""How soon an event loop gets the interpreter back from a thread that computes."""

import sys

from bigfleet.app.turns import TURN_S, quick_turns


def test_nobody_waits_longer_than_a_millisecond_while_it_lasts() -> None:
    before_s = sys.getswitchinterval()
    with quick_turns():
        assert abs(sys.getswitchinterval() - TURN_S) < 1e-6
        assert sys.getswitchinterval() < before_s
    assert sys.getswitchinterval() == before_s
