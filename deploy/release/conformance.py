"""Runs conformance on the two providers of a release, and keeps both reports.

Why: the providers of a release must be certified by the kit of the same release.
Must never: keep a report that is not CERTIFIED.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from deploy.release.errors import ReleaseError

_MACHINES: Final = 96
_HOOK: Final = '#!/bin/sh\ncase $1 in configure) test -r "$BF_BLOB_FILE" || exit 78 ;; esac\n'
_SHAPE: Final = (
    'instance_type: gen11, zone: hall-7, capacity_type: bare-metal, resources: {cpu: "96", memory: 384Gi}'
)


def certify(out: Path, version: str) -> list[Path]:
    """Write `conformance-<provider>-<version>.json` for both providers; refuses when one is not certified."""
    out.mkdir(parents=True, exist_ok=True)
    programs = Path(sys.executable).parent
    with tempfile.TemporaryDirectory() as scratch:
        inventory = _inventory(Path(scratch))
        address = "--addr 127.0.0.1:{port} --state {state} --metrics-addr 0"
        fake = f"{programs / 'bigfleet-fake-provider'} {address} --catalog realistic --speculative {{seed_count}}"
        hook = f"{programs / 'bigfleet-hook-provider'} {address} --inventory {inventory}"
        judged = {"fake": ("core,cloud,spot,durable", fake), "hook": ("bare-metal,durable", hook)}
        return [
            _judge(programs, profiles, start, out / f"conformance-{name}-{version}.json")
            for name, (profiles, start) in judged.items()
        ]


def _judge(programs: Path, profiles: str, start: str, kept: Path) -> Path:
    with tempfile.TemporaryDirectory() as reports:
        given = ["--profile", profiles, "--start", start, "--yes", "--out", reports]
        command = [str(programs / "bigfleet"), "conformance", *given]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  our own words
        if done.returncode:
            said = (done.stdout + done.stderr).strip().splitlines() or ["no words"]
            raise ReleaseError(f"{kept.stem}: not certified as {profiles}: {said[-1]}")
        shutil.copy(Path(reports) / "report.json", kept)
    return kept


def _inventory(folder: Path) -> Path:
    """Write an inventory with hooks that always succeed."""
    hook = folder / "hook"
    hook.write_text(_HOOK, encoding="utf-8")
    hook.chmod(0o755)
    machines = "".join(f"  - {{id: r{n:03}, ref: 10.0.0.{n}, {_SHAPE}}}\n" for n in range(_MACHINES))
    path = folder / "inventory.yaml"
    path.write_text(
        f"name: hall-7\nhooks: {{configure: ./hook, drain: ./hook}}\nmachines:\n{machines}", encoding="utf-8"
    )
    return path
