"""Makes the Python modules of every package under `proto/bigfleet` and finds out whether the committed ones are stale.

Why: generated code is committed, so that nobody needs a compiler to run BigFleet; this keeps it equal to its source.
Must never: touch a file that is not generated, write anything under `--check`, or ask the network.

Each `proto/bigfleet/<package>/<name>.proto` gives four modules in `bigfleet/<package>/`: messages (`<name>_pb2.py`),
services (`<name>_pb2_grpc.py`), and the types of both (`.pyi`). A new package needs no change here.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
SUFFIXES = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py", "_pb2_grpc.pyi")
# What protoc calls each generator; the two of mypy-protobuf are programs next to the Python that runs this.
OUTPUTS = ("python", "grpc_python", "mypy", "mypy_grpc")
PLUGINS = ("protoc-gen-mypy", "protoc-gen-mypy_grpc")


class GenerationError(Exception):
    """The modules could not be made; the text says why."""


def sources(proto_root: Path) -> list[str]:
    """Return every proto file of ours, relative to the root that imports are resolved against."""
    return sorted(path.relative_to(proto_root).as_posix() for path in proto_root.glob("bigfleet/**/*.proto"))


def generate(proto_root: Path, into: Path) -> None:
    """Make the modules of all proto files under `into`, which has to exist."""
    files = sources(proto_root)
    if not files:
        raise GenerationError(f"{proto_root / 'bigfleet'}: no proto file found, at least one is needed")
    tools = Path(sys.executable).parent
    missing = [name for name in PLUGINS if not (tools / name).exists()]
    if missing:
        raise GenerationError(
            f"{', '.join(missing)}: not found in {tools}; run with the Python of the project"
        )
    command = [
        *(sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={proto_root}"),
        *(f"--plugin={name}={tools / name}" for name in PLUGINS),
        *(f"--{name}_out={into}" for name in OUTPUTS),
        *("--mypy_opt=quiet", "--mypy_grpc_opt=quiet"),
        *files,
    ]
    # The plugins are Python programs: without a fixed hash seed, the order of some set could show in the output.
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 our own words
    if done.returncode:
        raise GenerationError(f"protoc refused the proto files:\n{done.stderr.strip()}")


def generated(root: Path) -> dict[str, bytes]:
    """Return the generated modules below `root`, by their path from there."""
    paths = (path for path in root.glob("bigfleet/**/*_pb2*") if path.name.endswith(SUFFIXES))
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(paths)}


def drift(wanted: dict[str, bytes], found: dict[str, bytes]) -> list[str]:
    """Return one line for each module that is not what the proto files say."""
    lines = []
    for name in sorted(wanted.keys() | found.keys()):
        if name not in found:
            lines.append(f"{name}: missing")
        elif name not in wanted:
            lines.append(f"{name}: has no proto file any more")
        elif wanted[name] != found[name]:
            lines.append(f"{name}: differs from what its proto file gives")
    return lines


def write(wanted: dict[str, bytes], found: dict[str, bytes], root: Path) -> None:
    """Make the modules below `root` what is wanted; leave alone what is so already."""
    for name in found.keys() - wanted.keys():
        (root / name).unlink()
    for name, content in wanted.items():
        if found.get(name) != content:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(content)


def main(argv: list[str]) -> int:
    """Generate or check; 0 when all is well, 1 when committed modules are stale, 2 when they could not be made."""
    parser = argparse.ArgumentParser(
        prog="proto/generate.py", description="make the Python modules of the proto files"
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 and name every stale module"
    )
    check = parser.parse_args(argv).check
    with tempfile.TemporaryDirectory() as directory:
        try:
            generate(REPOSITORY / "proto", Path(directory))
        except GenerationError as error:
            print(f"proto/generate.py: {error}", file=sys.stderr)
            return 2
        wanted = generated(Path(directory))
    found = generated(REPOSITORY)
    stale = drift(wanted, found)
    if check:
        for line in stale:
            print(line, file=sys.stderr)
        if stale:
            print("run: python proto/generate.py", file=sys.stderr)
        return 1 if stale else 0
    write(wanted, found, REPOSITORY)
    print(f"{len(wanted)} modules, {len(stale)} changed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
