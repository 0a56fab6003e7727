"""Installs BigFleet into a directory that a container runs from read-only: what the Dockerfile does, and CI in a clean root.

    python3 deploy/image/recipe.py --target /opt/bigfleet --run-python /usr/bin/python3

Why: no container engine is there when the project is tested, so the recipe is a program that both use, word for word.
Must never: install anything whose hash is not in a lock file, or leave behind what only building needs.

The tree: `lib/` with all packages, compiled, and `bin/` with one launcher per program. Bytecode carries the hash of its source and
is never checked, since the tree is read-only and no process can write a fresh one.
"""

import argparse
import compileall
import py_compile
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LAUNCHER = """#!{python}
import sys

sys.path.insert(0, {lib!r})
from {module} import {function}

sys.exit({function}())
"""


def install(target: Path, run_python: str) -> None:
    """Build the wheel, install it and what it needs, compile everything, write the launchers."""
    lib = target / "lib"
    with tempfile.TemporaryDirectory() as scratch:
        builder = Path(scratch) / "builder"
        venv.create(builder, with_pip=True)
        python = str(builder / "bin" / "python")
        pip = (python, "-m", "pip", "--quiet", "--disable-pip-version-check")
        run(*pip, "install", "--require-hashes", "--requirement", str(ROOT / "requirements-build.lock"))
        run(*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", scratch, str(ROOT))
        (wheel,) = Path(scratch).glob("bigfleet-*.whl")
        into = ("--no-compile", "--target", str(lib))
        run(*pip, "install", "--require-hashes", *into, "--requirement", str(ROOT / "requirements.lock"))
        shutil.rmtree(lib / "bin", ignore_errors=True)  # its scripts name the builder's interpreter
        run(*pip, "install", "--no-deps", *into, str(wheel))
    shutil.rmtree(lib / "bin", ignore_errors=True)
    for folder in sorted(lib.glob("**/tests")):
        if folder.is_dir() and folder.relative_to(lib).parts[0] != "bigfleet":
            shutil.rmtree(folder)
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    if not compileall.compile_dir(lib, quiet=1, invalidation_mode=mode, stripdir=str(target)):
        raise SystemExit("recipe: some module does not compile")
    launchers(target / "bin", lib, run_python)
    shutil.copyfile(ROOT / "LICENSE", target / "LICENSE")
    (
        target / "data"
    ).mkdir()  # becomes /var/lib/bigfleet, so that a fresh volume there belongs to the image's user


def launchers(folder: Path, lib: Path, run_python: str) -> None:
    """Write one program per entry point; the base that runs them has neither a shell nor `env`."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    folder.mkdir(parents=True)
    for name, entry in scripts.items():
        module, _, function = entry.partition(":")
        text = LAUNCHER.format(python=run_python, lib=str(lib), module=module, function=function)
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o755)


def run(*command: str) -> None:
    """Run a step; its own words are enough when it fails."""
    if subprocess.run(command, check=False).returncode:  # noqa: S603  steps of this file
        raise SystemExit(f"recipe: failed: {' '.join(command)}")


def main() -> None:
    """Read the two flags and install."""
    parser = argparse.ArgumentParser(description="Install BigFleet into a directory to run from read-only.")
    parser.add_argument("--target", type=Path, required=True, help="directory to make; must not exist")
    parser.add_argument("--run-python", default=sys.executable, help="interpreter that the launchers name")
    given = parser.parse_args()
    if given.target.exists():
        raise SystemExit(f"recipe: {given.target} exists, allowed is a directory to make")
    install(given.target, given.run_python)


if __name__ == "__main__":
    main()
