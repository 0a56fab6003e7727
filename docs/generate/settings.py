"""The settings page: variables and config keys of every command, and how the four sources are ordered."""

from bigfleet.cli.framework.settings import KEPT_VARIABLES
from bigfleet.cli.framework.surface import CommandEntry, entries
from bigfleet.cli.verbs.version import COMMIT_VARIABLE
from docs.generate.cli import PROGRAMS
from docs.generate.markdown import code, codes, plain, table
from docs.generate.markdown import page as markdown_page

_ORDER = """
A value is taken from the first of these that has it:

1. the flag on the command line,
2. the environment variable,
3. the key in the file named by `--config`,
4. the default.

`--print-config` prints each effective value with the source it came from, and exits; its output can serve as a
`--config` file. An unknown key in the file, and an unknown variable under a command's own prefix, end the command
with exit code 2 and its name. No secret is a value: secrets are files, and a setting holds the path.
"""

_VALUES = """
- **Durations** are written as `100ms`, `10s`, `5m`, `1h30m`, `1.5h` or `0`; a bare number has no unit and is refused.
- **Byte sizes** are a number with no unit, a binary one (`64KiB`, `100MiB`) or a decimal one (`10MB`).
- **Booleans** are `true` or `false`, also `1`, `0`, `t`, `f`.
- **Addresses** are `host:port` or `[ipv6]:port`; to listen, `:port` means all interfaces, and `0` switches an HTTP
  listener off. Nothing listens beyond 127.0.0.1 unless a flag says so.
- **Lists** are given by repeating the flag, or with commas.
"""


def page() -> str:
    """Return the page."""
    return markdown_page(
        "Settings",
        _ORDER,
        "## Values\n" + _VALUES,
        *(_command(program.name, entry) for program in PROGRAMS for entry in entries(program)),
        "## Other variables",
        table(
            ("Variable", "Meaning"),
            [
                *((code(name), plain(meaning)) for name, meaning in KEPT_VARIABLES.items()),
                ("`NO_COLOR`", "if not empty, output is never coloured"),
                (
                    code(COMMIT_VARIABLE),
                    "the commit of this build, shown by `bigfleet version`; set by the image",
                ),
            ],
        ),
    )


def _command(program: str, entry: CommandEntry) -> str:
    rows = [
        (
            codes(option.variables),
            code(option.flag if option.cli.in_file else ""),
            code(option.default),
            plain(option.help),
        )
        for option in entry.options
        if option.variables
    ]
    return f"## {program} {entry.row.name}\n\n" + table(
        ("Variable", "Key in the file", "Default", "Meaning"), rows
    )
