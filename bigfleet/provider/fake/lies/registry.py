"""Every lie by its name."""

from collections.abc import Sequence
from typing import Final

from bigfleet.model.errors import InvalidFieldError
from bigfleet.provider.fake.lies.calls import CALL_LIES
from bigfleet.provider.fake.lies.lie import Lie, checked_share
from bigfleet.provider.fake.lies.listings import LISTING_LIES
from bigfleet.provider.fake.lies.records import RECORD_LIES

LIES: Final[dict[str, type[Lie]]] = {lie.name: lie for lie in (*CALL_LIES, *LISTING_LIES, *RECORD_LIES)}


def lie_named(name: str) -> type[Lie]:
    if name not in LIES:
        raise InvalidFieldError("lie", name, f"one of {', '.join(LIES)}")
    return LIES[name]


def parse_lies(texts: Sequence[str]) -> dict[str, float]:
    """Read `NAME` and `NAME=P` texts."""
    found: dict[str, float] = {}
    for text in texts:
        name, equals, share = text.partition("=")
        lie = lie_named(name)
        try:
            number = float(share) if equals else None
        except ValueError:
            raise InvalidFieldError(f"lie {name}", share, f"a number from 0 to {lie.limit:g}") from None
        found[name] = checked_share(lie, number)
    return found
