"""The command level in `bigfleetctl status` before, during and after an upgrade (`coordinator#command-levels`)."""

import pytest

from bigfleet.cli.bigfleetctl.status import levels


def replica(name: str, known: int | None) -> dict[str, object]:
    return {"replica": name, "address": f"{name}:7790", "command_level": known}


@pytest.mark.parametrize(
    ("level", "known", "said"),
    [
        (1, (1, 1, 1), "level 1"),
        (1, (2, 1, 2), "level 1, to be raised to 2, waiting for b"),
        (1, (2, None, 2), "level 1, to be raised to 2, waiting for b"),
        (1, (2, 2, 2), "level 1, to be raised to 2"),
        (2, (2, 2, 2), "level 2"),
        (0, (0, 0, 0), None),
    ],
    ids=[
        "nothing new",
        "one is old",
        "one is away",
        "all know it",
        "raised",
        "no leader, or an old one",
    ],
)
def test_status_shows_the_level_and_the_replicas_to_upgrade(
    level: int, known: tuple[int | None, ...], said: str | None
) -> None:
    rows = [replica(name, knows) for name, knows in zip("abc", known, strict=True)]
    assert levels({"command_level": level, "replicas": rows}) == said
