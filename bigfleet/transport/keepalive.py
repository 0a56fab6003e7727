"""Pings on connections: how a process notices a peer that vanished without a word.

Why: a peer whose packets are lost closes nothing. Without pings a call waits for its deadline, and a session for ever.
Must never: ping a server so often that it closes the connection. Servers of other languages allow, by default, two pings
too many before they do, and forget them only when they send data. So a client sends two pings after its last data, then
one a minute (the library's own limit); our servers accept one every 5 s. A client accepts any number.
Rules: `wire#keepalive`; ADR-0195.
"""

from dataclasses import dataclass
from typing import Final

ACCEPTED_INTERVAL_S: Final = 5.0
"""Our servers accept the pings of clients down to this interval, with calls and without."""


@dataclass(frozen=True, slots=True)
class Keepalive:
    """How long a connection may be silent before a ping, and how long the peer may take to answer it."""

    after_s: float = 10.0
    answer_within_s: float = 5.0

    def channel_options(self) -> list[tuple[str, int]]:
        """Options of a client. They also let the kernel give up data that is not acknowledged in the time to answer."""
        return [
            ("grpc.keepalive_time_ms", round(self.after_s * 1000)),
            ("grpc.keepalive_timeout_ms", round(self.answer_within_s * 1000)),
            # Without it the library waits a minute for the answer to a ping, whatever the time above says.
            ("grpc.http2.ping_timeout_ms", round(self.answer_within_s * 1000)),
            ("grpc.keepalive_permit_without_calls", 1),
        ]

    def server_options(self) -> list[tuple[str, int]]:
        """Options of a server: the same pings without a limit, and the pings of clients that it accepts."""
        return [
            *self.channel_options(),
            ("grpc.http2.max_pings_without_data", 0),
            # The library's name for the least interval between the pings that it receives.
            (
                "grpc.http2.min_ping_interval_without_data_ms",
                round(min(ACCEPTED_INTERVAL_S, self.after_s / 2) * 1000),
            ),
        ]


KEEPALIVE: Final = Keepalive()
NOTICED_AFTER_S: Final = KEEPALIVE.after_s + KEEPALIVE.answer_within_s
"""A peer that fell silent is noticed this long after the last data from it."""
