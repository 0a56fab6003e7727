"""`completion bash|zsh|fish`: completion scripts made from the command table and the settings.

Why: the scripts are static, since calling the program at each key press would be too slow.
Must never: offer what the program refuses.
Rules: `packaging#bigfleetctl`.

All three scripts find the command from the words before the cursor, without flags and their values, then offer commands,
flags, or the values of the flag before the cursor.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from bigfleet.cli.framework.command import CliCommand
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.framework.kinds import Cli
from bigfleet.cli.framework.options import Option
from bigfleet.cli.framework.settings import Flags
from bigfleet.cli.framework.surface import CommandEntry, entries, groups
from bigfleet.cli.framework.tree import CliProgram

_EVERYWHERE = ("-h", "--help", "--version")


@dataclass(frozen=True, slots=True)
class _Words:
    """The commands, flags and values of a program."""

    paths: tuple[str, ...]  # every command and group, as the words typed
    value_flags: tuple[str, ...]  # flags whose next word is a value
    after: dict[str, tuple[str, ...]]  # path -> what may follow it
    choices: dict[tuple[str, str], tuple[str, ...]]  # (path, flag) -> its values
    files: tuple[tuple[str, str], ...]  # (path, flag) whose value is a file
    file_arguments: tuple[str, ...]  # paths whose arguments are files


def _words(program: CliProgram) -> _Words:
    found = entries(program)
    after = {
        " ".join(path): (*(row.words[-1] for row in program.children(path)), *_EVERYWHERE)
        for path in groups(program)
    }
    after |= {entry.row.name: tuple(_offered(entry)) for entry in found}
    flags = [
        (entry.row.name, option, s) for entry in found for option in entry.options for s in spellings(option)
    ]
    return _Words(
        paths=tuple(row.name for row in program.rows),
        value_flags=tuple(dict.fromkeys(s for _, option, s in flags if option.takes_value)),
        after=after,
        choices={(path, s): option.choices for path, option, s in flags if option.choices},
        files=tuple((path, s) for path, option, s in flags if option.is_path),
        file_arguments=tuple(e.row.name for e in found if any(o.positional and o.is_path for o in e.options)),
    )


def spellings(option: Option) -> tuple[str, ...]:
    """Return an option's names as typed: `--output` and `-o`."""
    return tuple(f"-{name}" if len(name) == 1 else f"--{name}" for name in option.names)


def _offered(entry: CommandEntry) -> Iterable[str]:
    for option in entry.options:
        yield from option.choices if option.positional else spellings(option)
    yield from _EVERYWHERE


def bash_script(program: CliProgram) -> str:
    """Return a script for `source <(bigfleet completion bash)`."""
    name, words = program.name, _words(program)
    offer = 'COMPREPLY=($(compgen -W "{}" -- "$current"))'
    values = [
        f'"{path}|{flag}") {offer.format(" ".join(c))}; return ;;'
        for (path, flag), c in words.choices.items()
    ]
    values += [
        f'"{path}|{flag}") COMPREPLY=($(compgen -f -- "$current")); return ;;' for path, flag in words.files
    ]
    after = [f'"{path}") {offer.format(" ".join(offered))} ;;' for path, offered in words.after.items()]
    files = [
        f'"{path}") [[ $current == -* ]] || COMPREPLY=($(compgen -f -- "$current")) ;;'
        for path in words.file_arguments
    ]
    return f"""# bash completion of {name}; load it with: source <({name} completion bash)
_{name}() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD - 1]}}" path="" skip="" word i
  COMPREPLY=()
  # bash splits --flag=value at the equals sign
  if [[ $current == "=" ]]; then
    current=""
  elif [[ $previous == "=" ]]; then
    previous="${{COMP_WORDS[COMP_CWORD - 2]}}"
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    word="${{COMP_WORDS[i]}}"
    if [[ $word == "=" ]]; then
      skip=1
    elif [[ -n $skip ]]; then
      skip=""
    else
      case "$word" in
        {"|".join(words.value_flags)}) skip=1 ;;
        -*) ;;
        *)
          case "${{path:+$path }}$word" in
            {"|".join(f'"{path}"' for path in words.paths)}) path="${{path:+$path }}$word" ;;
          esac
          ;;
      esac
    fi
  done
  case "$path|$previous" in
{_indented(4, values)}
  esac
  case "$path" in
{_indented(4, after)}
  esac
  case "$path" in
{_indented(4, files) or "    *) ;;"}
  esac
}}
complete -o filenames -F _{name} {name}
"""


def zsh_script(program: CliProgram) -> str:
    """Return a script for a file `_bigfleet` in a directory of zsh's fpath."""
    name, words = program.name, _words(program)
    values = [
        f'"{path}|{flag}") compadd -- {" ".join(c)}; return ;;' for (path, flag), c in words.choices.items()
    ]
    values += [f'"{path}|{flag}") _files; return ;;' for path, flag in words.files]
    after = [f'"{path}") compadd -- {" ".join(offered)} ;;' for path, offered in words.after.items()]
    files = [f'"{path}") _files ;;' for path in words.file_arguments]
    return f"""#compdef {name}
# zsh completion of {name}; save it as _{name} in a directory of $fpath
_{name}() {{
  local previous="${{words[CURRENT-1]}}" command="" skip="" word
  local -i i
  for ((i = 2; i < CURRENT; i++)); do
    word="${{words[i]}}"
    if [[ -n $skip ]]; then
      skip=""
      continue
    fi
    case "$word" in
      {"|".join(words.value_flags)}) skip=1 ;;
      -*) ;;
      *)
        case "${{command:+$command }}$word" in
          {"|".join(f'"{path}"' for path in words.paths)}) command="${{command:+$command }}$word" ;;
        esac
        ;;
    esac
  done
  case "$command|$previous" in
{_indented(4, values)}
  esac
  case "$command" in
{_indented(4, after)}
  esac
  case "$command" in
{_indented(4, files) or "    *) ;;"}
  esac
}}
compdef _{name} {name}
"""


def fish_script(program: CliProgram) -> str:
    """Return a script for `bigfleet completion fish | source`."""
    name, words = program.name, _words(program)
    lines = [
        f"# fish completion of {name}; load it with: {name} completion fish | source",
        f"function __{name}_at",
        "    set -l command",
        "    set -l skip 0",
        "    for word in (commandline -opc)[2..-1]",
        "        if test $skip = 1",
        "            set skip 0",
        "            continue",
        "        end",
        "        switch $word",
        f"            case {' '.join(words.value_flags)}",
        "                set skip 1",
        "            case '-*'",
        "            case '*'",
        "                set -l longer (string join ' ' -- $command $word)",
        f"                if contains -- $longer {' '.join(map(_quoted, words.paths))}",
        "                    set command $command $word",
        "                end",
        "        end",
        "    end",
        '    test "$command" = "$argv[1]"',
        "end",
        f"complete -c {name} -f",
        f"complete -c {name} -s h -l help -d 'help, on any level'",
        f"complete -c {name} -l version -d 'print the version'",
    ]
    lines += [
        f"complete -c {name} {_fish_at(name, ' '.join(path))} -a {row.words[-1]} -d {_quoted(row.summary)}"
        for path in groups(program)
        for row in program.children(path)
    ]
    lines += [
        f"complete -c {name} {_fish_at(name, entry.row.name)} {_fish_option(option)}"
        for entry in entries(program)
        for option in entry.options
    ]
    return "\n".join(lines) + "\n"


def _fish_at(name: str, path: str) -> str:
    return f'-n "__{name}_at {_quoted(path)}"'


def _fish_option(option: Option) -> str:
    parts = [] if option.positional else [f"-l {option.flag}"]
    if option.cli.short:
        parts.append(f"-s {option.cli.short}")
    if option.takes_value and not option.positional:
        parts.append("-r")
    if option.choices:
        parts.append(f"-a {_quoted(' '.join(option.choices))}")
    elif option.is_path:
        parts.append("-F")
    return " ".join([*parts, f"-d {_quoted(option.help)}"])


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _indented(width: int, lines: Iterable[str]) -> str:
    return "\n".join(" " * width + line for line in lines)


_SCRIPTS: dict[str, Callable[[CliProgram], str]] = {
    "bash": bash_script,
    "zsh": zsh_script,
    "fish": fish_script,
}


class CompletionSettings(Flags, env_prefix="BIGFLEET_COMPLETION_"):
    """Flags of `bigfleet completion`."""

    shell: Annotated[Literal["bash", "zsh", "fish"], Cli(positional=True, metavar="SHELL")] = Field(
        description="which shell the script is for"
    )


class CtlCompletionSettings(CompletionSettings, env_prefix="BIGFLEETCTL_"):
    """Flags of `bigfleetctl completion`."""


def _run(settings: CompletionSettings, console: Console) -> int:
    console.stdout.write(_SCRIPTS[settings.shell](console.program))
    return ExitCode.DONE


_DESCRIPTION = (
    "Print a completion script for a shell: commands, flags, and the values of flags that have a fixed set."
)


def _examples(program: str) -> tuple[str, ...]:
    return (
        f"source <({program} completion bash)",
        f'{program} completion zsh > "${{fpath[1]}}/_{program}"',
        f"{program} completion fish | source",
    )


BIGFLEET = CliCommand(CompletionSettings, _run, _DESCRIPTION, _examples("bigfleet"))
BIGFLEETCTL = CliCommand(CtlCompletionSettings, _run, _DESCRIPTION, _examples("bigfleetctl"))
