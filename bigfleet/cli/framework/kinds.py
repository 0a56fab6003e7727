"""Field types of settings: how a text becomes a value, how a value is written, what is allowed.

Why: help pages, error lines, `--print-config` and the reference must agree about a value.
Must never: accept in a file what a flag refuses.
Rules: `packaging#go-values`, `packaging#addresses`, `packaging#secrets-are-files`, `packaging#help`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic_core import core_schema

from bigfleet.cli.framework import values
from bigfleet.cli.framework.errors import UnreadableValueError
from bigfleet.model.errors import InvalidFieldError
from bigfleet.transport.address import ListenAddress, parse_http_listen, parse_listen


@dataclass(frozen=True, slots=True)
class ValueKind:
    """A type of value with its own text form."""

    types: tuple[type, ...]  # types of a parsed value
    metavar: str
    allowed: str
    parse: Callable[[str], object]
    format: Callable[[Any], str] = str  # Any: each kind formats its own type only

    def __get_pydantic_core_schema__(self, _source: Any, _handler: Any) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(self._read)

    def _read(self, value: object) -> object:
        if not isinstance(value, str):
            # A default from code, or something that only a file can hold, such as a list.
            if isinstance(value, bool) or not isinstance(value, self.types):
                raise UnreadableValueError(str(value), self.allowed)
            return value
        try:
            return self.parse(value)
        except InvalidFieldError as error:
            raise UnreadableValueError(value, error.allowed) from None


def _optional_path(text: str) -> Path | None:
    return Path(text) if text else None


def _directory(text: str) -> Path:
    if not text:
        # Path("") would mean the current directory.
        raise InvalidFieldError("directory", text, _A_DIRECTORY)
    return Path(text)


def _path_text(path: Path | None) -> str:
    return "" if path is None else str(path)


_NONE = type(None)
_A_DIRECTORY = "the path of a directory, . for the current one"

Duration = Annotated[
    float, ValueKind((int, float), "DURATION", values.DURATION, values.parse_duration, values.format_duration)
]
ByteSize = Annotated[
    int, ValueKind((int,), "BYTES", values.BYTE_SIZE, values.parse_byte_size, values.format_byte_size)
]
Listen = Annotated[ListenAddress, ValueKind((ListenAddress,), "ADDRESS", values.LISTEN_ADDRESS, parse_listen)]
HttpListen = Annotated[
    ListenAddress | None,
    ValueKind(
        (ListenAddress, _NONE), "ADDRESS", values.HTTP_ADDRESS, parse_http_listen, values.format_http_address
    ),
]
Dial = Annotated[str, ValueKind((), "ADDRESS", values.DIAL_ADDRESS, values.parse_dial_address)]
OptionalDial = Annotated[
    str,
    ValueKind((), "ADDRESS", f"{values.DIAL_ADDRESS}, or empty for none", values.parse_optional_dial_address),
]
OptionalPath = Annotated[
    Path | None, ValueKind((Path, _NONE), "FILE", "a path, or empty for none", _optional_path, _path_text)
]

Directory = Annotated[Path, ValueKind((Path,), "DIR", _A_DIRECTORY, _directory)]


@dataclass(frozen=True, slots=True)
class Cli:
    """How a field appears on the command line, beyond its type; put into `Annotated`."""

    positional: bool = False
    metavar: str = ""
    short: str = ""
    aliases: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()  # more variables, read after the field's own
    in_environment: bool = True
    in_file: bool = True
    masked: bool = False
    limit: bool = False  # what a peer or a file may demand at most; listed on the page of limits
    default: str = ""  # text for a default that is not a fixed value


SHARD_VARIABLE = "BIGFLEET_SHARD"
"""The address of a shard for every command that reads from one."""
SHARD = Cli(aliases=("shard-addr",), variables=(SHARD_VARIABLE,))
SHARD_ADDR = Cli(aliases=("shard",), variables=(SHARD_VARIABLE,))
"""The name that the operator of the original gives this flag; every command takes both names."""
