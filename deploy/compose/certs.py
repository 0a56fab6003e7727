"""Makes the certificates of the fleet once: a development CA and one certificate per `role/name` that is given.

    python3 certs.py DIR admin/coordinator-0 shard/shard-0=127.78.0.5

Why: the image has no shell, and `bigfleet certs` makes one certificate at a time and overwrites nothing.
Must never: touch what is there, so that it may run before every start.
"""

import subprocess
import sys
from pathlib import Path

DAYS = "365"


def call(*words: str) -> list[str]:
    """Return one call of the program that the path has."""
    return ["bigfleet", "certs", *words]


def wait(*calls: list[str]) -> None:
    """Run calls side by side; their own lines are enough when one fails."""
    running = [subprocess.Popen(each) for each in calls]  # noqa: S603  as above
    if failed := [each.returncode for each in running if each.wait()]:
        raise SystemExit(failed[0])


def main(folder: Path, *holders: str) -> None:
    """Make what is missing."""
    if not (folder / "ca.crt").exists():
        wait(call("init", str(folder)))
    missing = []
    for holder in holders:
        identity, _, address = holder.partition("=")
        role, _, name = identity.partition("/")
        if not (folder / name).exists():
            names = [word for each in (name, address) if each for word in ("--dns", each)]
            missing.append(call("issue", str(folder), "--role", role, "--name", name, "--days", DAYS, *names))
    wait(*missing)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
