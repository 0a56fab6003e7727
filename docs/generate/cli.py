"""The command-line page, from the command tables and the settings of each command."""

from bigfleet.app.bigfleet import PROGRAM as BIGFLEET
from bigfleet.app.bigfleetctl import PROGRAM as BIGFLEETCTL
from bigfleet.app.kubectl_bigfleet import PROGRAM as KUBECTL_BIGFLEET
from bigfleet.app.operator import PROGRAM as OPERATOR
from bigfleet.app.unschedulable_pod_controller import PROGRAM as POD_CONTROLLER
from bigfleet.cli.framework.help import spelling, usage
from bigfleet.cli.framework.options import Option
from bigfleet.cli.framework.surface import CommandEntry, entries
from bigfleet.cli.framework.tree import CliProgram
from docs.generate.markdown import code, codes, plain, table
from docs.generate.markdown import page as markdown_page

PROGRAMS = (BIGFLEET, BIGFLEETCTL, OPERATOR, POD_CONTROLLER, KUBECTL_BIGFLEET)


def page() -> str:
    """Return the page."""
    return markdown_page(
        "Command line",
        "Flags are written with one dash or two, as `--flag value` or `--flag=value`; a boolean is `--flag`, "
        "`--flag=true` or `--flag=false`. Every flag can also be set by an environment variable or in a file, see "
        "[settings](settings.md). On any level `-h` prints help and `--version` the version. A command's exit code is explained by "
        "its [exit code](exit-codes.md).",
        *(part for program in PROGRAMS for part in _program(program)),
    )


def _program(program: CliProgram) -> list[str]:
    found = entries(program)
    overview = table(
        ("Command", "What it does"),
        [(f"[`{program.name} {e.row.name}`](#{_anchor(program, e)})", plain(e.row.summary)) for e in found],
    )
    return [
        f"## {program.name}",
        plain(program.summary),
        overview,
        *(_command(program, entry) for entry in found),
    ]


def _command(program: CliProgram, entry: CommandEntry) -> str:
    paragraphs = [
        " ".join(paragraph.split()) for paragraph in entry.command.description.strip().split("\n\n")
    ]
    parts = [
        f"### {program.name} {entry.row.name}",
        *map(plain, paragraphs),
        f"```text\n{usage(program, entry.row, entry.options)}\n```",
        table(
            ("Argument or flag", "Default", "Meaning", "Allowed"), [_row(option) for option in entry.options]
        ),
    ]
    if entry.command.examples:
        parts.append("```console\n" + "\n".join(f"$ {line}" for line in entry.command.examples) + "\n```")
    return "\n\n".join(parts)


def _row(option: Option) -> tuple[str, str, str, str]:
    names = code(option.flag if option.positional else spelling(option))
    further = [f"-{name}" if len(name) == 1 else f"--{name}" for name in option.names[1:]]
    if further:
        names += f", {codes(further)}"
    default = "required" if option.required else code(option.default)
    return names, default, plain(option.help), plain(option.allowed)


def _anchor(program: CliProgram, entry: CommandEntry) -> str:
    return f"{program.name} {entry.row.name}".replace(" ", "-")
