"""From arguments to an exit code: find the command, load its settings, run it, report its errors.

Why: every program fails in the same way, with one line and one exit code, never with a traceback.
Must never: import pydantic, grpc, numpy or cryptography before the command is known; hide a defect; print more than one
line for a failure without `--log-level debug`.
Rules: `packaging#settings-sources`, `packaging#exit-codes`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.errors import CommandError, UsageError
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.framework.help import command_page, group_page
from bigfleet.cli.framework.tree import CommandRow, flag_name, is_flag, walk
from bigfleet.model.errors import BigFleetError, InvalidFieldError
from bigfleet.version import __version__

if TYPE_CHECKING:  # these import pydantic
    from bigfleet.cli.framework.options import Option
    from bigfleet.cli.framework.settings import Flags


def dispatch(console: Console, argv: Sequence[str]) -> int:
    """Run what the arguments ask for and return the exit code."""
    code = _ended(console, argv)
    try:
        console.stdout.flush()
    except OSError as error:
        _drop_buffered(console)
        if code == ExitCode.DONE and not isinstance(error, BrokenPipeError):
            console.print_error(_os_error_text(error))
            return ExitCode.FAILURE
    return code


def _ended(console: Console, argv: Sequence[str]) -> int:
    try:
        return _dispatch(console, argv)
    except BrokenPipeError:  # the reader closed the pipe, as in `bigfleet … | head`
        return ExitCode.DONE
    except CommandError as error:
        console.print_error(str(error))
        return error.code
    except InvalidFieldError as error:
        console.print_error(str(error))
        return ExitCode.USAGE
    except OSError as error:
        console.print_error(_os_error_text(error))
        return ExitCode.FAILURE
    except BigFleetError as error:
        console.print_error(str(error))
        return ExitCode.FAILURE
    except KeyboardInterrupt:
        # A serving process has a signal handler and ends with 0; this was a command that had not finished.
        console.print_error("interrupted before it had finished")
        return ExitCode.FAILURE


def _os_error_text(error: OSError) -> str:
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason


def _dispatch(console: Console, argv: Sequence[str]) -> int:
    program = console.program
    if list(argv[:1]) == ["help"]:
        argv = [*argv[1:], "--help"]
    found = walk(program, argv)
    flags = [flag_name(token) for token in _before_double_dash(found.arguments) if is_flag(token)]
    if "version" in flags:
        console.print(f"{program.name} {__version__}")
        return ExitCode.DONE
    if found.row is not None:
        return _run(console, found.row, found.arguments)
    if "h" in flags or "help" in flags:
        console.stdout.write(group_page(program, found.path))
        return ExitCode.DONE
    here = " ".join((program.name, *found.path))
    names = ", ".join(row.words[-1] for row in program.children(found.path))
    if flags and not found.path:
        raise UsageError(f"unknown flag --{flags[0]} before a command; see {here} --help")
    raise UsageError(f"a command is missing, allowed is one of {names}; see {here} --help")


def _run(console: Console, row: CommandRow, arguments: Sequence[str]) -> int:
    # Imported here: pydantic alone takes longer than --version may take.
    from bigfleet.cli.framework.command import all_settings, resolve
    from bigfleet.cli.framework.load import load
    from bigfleet.cli.framework.options import options_of
    from bigfleet.cli.framework.parse import parse

    command = resolve(row)
    options = options_of(command.settings)
    try:
        parsed = parse(options, arguments)
        if parsed.help:
            console.stdout.write(command_page(console.program, row, command, options))
            return ExitCode.DONE
        loaded = load(command.settings, parsed.texts, console.environ, lambda: all_settings(console.program))
    except UsageError as error:
        raise UsageError(f"{error}; see {console.program.name} {row.name} --help") from None
    if loaded.settings.print_config:
        from bigfleet.cli.verbs.print_config import effective

        console.stdout.write(effective(f"{console.program.name} {row.name}", loaded))
        return ExitCode.DONE
    debug = loaded.settings.log_level == "debug"
    try:
        return command.run(loaded.settings, console)
    except BrokenPipeError:
        raise
    except Exception as error:
        if debug:
            _print_traceback(console, error)
        if (flag := _flag_of_address(error, options, loaded.settings)) is not None:
            raise CommandError(f"{error}; --{flag} takes another address") from None
        if isinstance(error, BigFleetError | OSError):
            raise
        # A defect in BigFleet. The type is printed because many messages mean nothing without it.
        hint = "" if debug else "; --log-level debug shows where"
        raise CommandError(
            f"internal error: {type(error).__name__}: {' '.join(str(error).split())}{hint}"
        ) from error


def _flag_of_address(error: Exception, options: "Sequence[Option]", settings: "Flags") -> str | None:
    """Return the flag that gave the address on which the process could not listen."""
    from bigfleet.aio.net import ListenError

    if not isinstance(error, ListenError):
        return None
    given = ((option, getattr(settings, option.field)) for option in options)
    return next((option.flag for option, value in given if str(value) == error.address), None)


def _before_double_dash(arguments: Sequence[str]) -> Sequence[str]:
    return arguments[: arguments.index("--")] if "--" in arguments else arguments


def _print_traceback(console: Console, error: Exception) -> None:
    from traceback import format_exception

    console.stderr.write("".join(format_exception(error)))


def _drop_buffered(console: Console) -> None:
    import os

    try:
        descriptor = console.stdout.fileno()
    except (OSError, ValueError):  # not a file, so the interpreter does not flush it at exit
        return
    # The interpreter would try to write the buffered rest again at exit, and report the failure there.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
