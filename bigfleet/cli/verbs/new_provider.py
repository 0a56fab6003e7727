"""`bigfleet new-provider NAME`: creates the project of a working provider, which the author then completes.

Why: an author should begin with a provider that passes conformance, and see at each step whether it still does.
Must never: write into a directory that is not empty, or leave half a project after an error.
Rules: `providers#new-provider`.
"""

import posixpath
import re
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from bigfleet.cli.framework.command import CliCommand
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.errors import CommandError, UsageError
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.framework.kinds import Cli, OptionalPath
from bigfleet.cli.framework.settings import Flags
from bigfleet.version import __version__

NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
TEMPLATES: Final = posixpath.join(posixpath.dirname(__file__), "new_provider_templates")
ENDING: Final = ".tmpl"
# Where a template ends up; `package` becomes the name of the Python package.
FILES: Final = {
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    "gitignore": ".gitignore",  # under its own name the template would hide files of this repository
    "Containerfile": "Containerfile",
    "package/__init__.py": "@@package@@/__init__.py",
    "package/__main__.py": "@@package@@/__main__.py",
    "package/backend.py": "@@package@@/backend.py",
    "tests/test_backend.py": "tests/test_backend.py",
    "tests/test_conformance.py": "tests/test_conformance.py",
    "chart/Chart.yaml": "chart/Chart.yaml",
    "chart/values.yaml": "chart/values.yaml",
    "chart/templates/service.yaml": "chart/templates/service.yaml",
    "chart/templates/statefulset.yaml": "chart/templates/statefulset.yaml",
}


class NewProviderSettings(Flags, env_prefix="BIGFLEET_NEW_PROVIDER_"):
    """Flags of `bigfleet new-provider`."""

    name: Annotated[str, Cli(positional=True, metavar="NAME")] = Field(
        description="name of the provider: small letters, digits and single dashes, such as acme-provider"
    )
    directory: Annotated[OptionalPath, Cli(metavar="DIR", default="the name")] = Field(
        default=None, description="directory to write; it must be empty or not exist"
    )


def template_values(name: str) -> dict[str, str]:
    """Return the value of each mark in the templates."""
    package = name.replace("-", "_")
    base = name.removesuffix("-provider")
    return {
        "name": name,
        "package": package if package.endswith("_provider") else f"{package}_provider",
        "class": "".join(part.capitalize() for part in base.split("-")),
        "title": base,
        "version": __version__,
    }


def fill_template(text: str, marks: dict[str, str]) -> str:
    """Return a template with its marks replaced; an unknown mark is a defect."""
    return re.sub(r"@@(\w+)@@", lambda found: marks[found[1]], text)


def _run(settings: NewProviderSettings, console: Console) -> int:
    from bigfleet.aio.disk import OpenMode, ensure_directory
    from bigfleet.aio.system_disk import SystemDisk

    if not NAME.fullmatch(settings.name):
        allowed = "small letters, digits and single dashes, a letter first"
        raise UsageError(f"NAME: found {settings.name!r}, allowed is {allowed}")
    target, disk = settings.directory or Path(settings.name), SystemDisk()
    if disk.exists(target) and (not disk.stat(target).is_directory or disk.list_names(target)):
        raise CommandError(f"{target}: exists and is not an empty directory", ExitCode.EXISTS)
    marks = template_values(settings.name)
    # Render everything before writing anything.
    project = {
        fill_template(path, marks): fill_template(
            disk.read(f"{TEMPLATES}/{template}{ENDING}").decode(), marks
        )
        for template, path in FILES.items()
    }
    for path, text in project.items():
        place = target / path
        ensure_directory(disk, place.parent, permissions=0o755)
        with disk.open(place, OpenMode.CREATE, permissions=0o644) as file:
            file.pwrite(0, text.encode())
    console.print(f"{target}: {len(project)} files; the TODOs of {marks['package']}/backend.py make it yours")
    console.print(
        "Next, in that directory and a virtual environment, with BIGFLEET the wheel of a release or the directory of its source:\n"
        "  pip install BIGFLEET --editable . pytest\n"
        "  pytest\n"
        f"  {settings.name} --state ./state\n"
        "  bigfleet shard --provider-addr 127.0.0.1:9000 --data-dir ./shard"
    )
    return ExitCode.DONE


NEW_PROVIDER = CliCommand(
    NewProviderSettings,
    _run,
    """Create the project of a provider: a backend with simulated machines, tests that run the conformance kit, a container
    file and a chart. It passes conformance unchanged; its TODOs mark what to replace.""",
    ("bigfleet new-provider acme-provider", "bigfleet new-provider acme --directory ../acme"),
)
