"""How soon an event loop gets the interpreter back from a thread that computes."""

import sys

from bigfleet.app.switch_interval import SWITCH_INTERVAL_S, short_switch_interval


def test_nobody_waits_longer_than_a_millisecond_while_it_lasts() -> None:
    before_s = sys.getswitchinterval()
    with short_switch_interval():
        assert abs(sys.getswitchinterval() - SWITCH_INTERVAL_S) < 1e-6
        assert sys.getswitchinterval() < before_s
    assert sys.getswitchinterval() == before_s
