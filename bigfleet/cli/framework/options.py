"""The options of a settings class: names, default, meaning and allowed values of each field.

Why: parser, help, completion, `--print-config` and the reference must agree.
Must never: need an instance, read a value, or know a particular command.
Rules: `packaging#settings-sources`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from bigfleet.cli.framework import values
from bigfleet.cli.framework.kinds import Cli, ValueKind
from bigfleet.cli.framework.settings import Flags

_NAMES = {
    int: ("INTEGER", "a whole number"),
    float: ("NUMBER", "a number"),
    str: ("TEXT", "a text"),
    Path: ("PATH", "a path"),
}

_NO_MARK = Cli()


@dataclass(frozen=True, slots=True)
class Option:
    """One field of a settings class, as the user sees it."""

    field: str
    flag: str  # without dashes; for a positional argument its metavar
    group: str
    help: str
    metavar: str
    allowed: str
    default: str  # as text; empty for none
    required: bool
    takes_value: bool
    many: bool
    optional: bool  # an empty text gives None
    choices: tuple[str, ...]
    is_path: bool
    variable: str  # empty for none
    cli: Cli = _NO_MARK
    kind: ValueKind | None = None

    @property
    def positional(self) -> bool:
        return self.cli.positional

    @property
    def names(self) -> tuple[str, ...]:
        """All of its names on the command line, without dashes."""
        short = (self.cli.short,) if self.cli.short else ()
        return () if self.positional else (self.flag, *self.cli.aliases, *short)

    @property
    def variables(self) -> tuple[str, ...]:
        """All environment variables that set it, in order of precedence."""
        return ((self.variable,) if self.variable else ()) + self.cli.variables

    @property
    def label(self) -> str:
        """Its name in error lines."""
        return self.flag if self.positional else f"--{self.flag}"

    def text(self, value: object) -> str:
        """Return a value in the form that a flag takes."""
        if value is None and self.optional:
            return ""
        if self.kind is not None:
            return self.kind.format(value)
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, list | tuple):
            return ",".join(map(str, value))
        return str(value)


@cache
def options_of(settings: type[Flags]) -> tuple[Option, ...]:
    """Return the options of a settings class in the order of declaration, its own before those of its bases."""
    prefix = settings.model_config.get("env_prefix", "")
    found = [_option(name, info, settings, prefix) for name, info in settings.model_fields.items()]
    order = [_group_title(cls) for cls in settings.__mro__ if issubclass(cls, Flags)]
    return tuple(sorted(found, key=lambda option: order.index(option.group)))


def by_name(options: Iterable[Option]) -> dict[str, Option]:
    """Return the options by each of their flag names."""
    return {name: option for option in options for name in option.names}


def _group_title(cls: type) -> str:
    return str(vars(cls).get("group_title", "Flags"))


def _declaring_group(settings: type[Flags], name: str) -> str:
    owner = next(cls for cls in reversed(settings.__mro__) if name in vars(cls).get("__annotations__", {}))
    return _group_title(owner)


def _option(name: str, info: FieldInfo, settings: type[Flags], prefix: str) -> Option:
    base, many, optional, inner = _unwrap(info.annotation)
    marks = (*info.metadata, *inner)
    cli = next((mark for mark in marks if isinstance(mark, Cli)), _NO_MARK)
    kind = next((mark for mark in marks if isinstance(mark, ValueKind)), None)
    optional = optional and kind not in info.metadata  # such a kind parses and formats None itself
    choices = tuple(map(str, get_args(base))) if get_origin(base) is Literal else ()
    is_bool = base is bool
    metavar, allowed = _NAMES.get(base, ("VALUE", "a value"))
    if kind is not None:
        metavar, allowed = kind.metavar, kind.allowed
    elif choices:
        metavar, allowed = "|".join(choices), f"one of {', '.join(choices)}"
    elif is_bool:
        metavar, allowed = "", values.BOOLEAN
    metavar = cli.metavar or metavar
    flag = metavar if cli.positional else name.replace("_", "-")
    with_variable = bool(prefix) and cli.in_environment and not cli.positional
    option = Option(
        field=name,
        flag=flag,
        group=_declaring_group(settings, name),
        help=info.description or "",
        metavar=metavar,
        allowed=allowed + _bounds(marks) + (", more than one with commas" if many else ""),
        default="",
        required=info.is_required(),
        takes_value=not is_bool,
        many=many,
        optional=optional,
        choices=choices,
        is_path=base is Path,
        variable=prefix + name.upper() if with_variable else "",
        cli=cli,
        kind=kind,
    )
    return _with_default(option, info)


def _with_default(option: Option, info: FieldInfo) -> Option:
    default = info.get_default(call_default_factory=False)
    if default is PydanticUndefined:
        return option
    # A default may be written as text ("10s"), and is then shown unchanged.
    text = default if isinstance(default, str) else option.text(default)
    return replace(option, default=option.cli.default or text)


def _unwrap(
    annotation: Any,
) -> tuple[Any, bool, bool, tuple[Any, ...]]:  # Any: a type form
    """Return the type of one value, whether it may be repeated, whether it may be None, and its inner marks."""
    if get_origin(annotation) is tuple:
        return get_args(annotation)[0], True, False, ()
    arms = [arm for arm in get_args(annotation) if arm is not NoneType]
    optional = NoneType in get_args(annotation) and len(arms) == 1
    base = arms[0] if optional else annotation
    if get_origin(base) is Annotated:
        return base.__origin__, False, optional, base.__metadata__
    return base, False, optional, ()


def _bounds(metadata: Iterable[object]) -> str:
    words = {
        Ge: "at least",
        Gt: "above",
        Le: "at most",
        Lt: "below",
        MinLen: "of length at least",
        MaxLen: "of length at most",
    }
    bounds = []
    for mark in metadata:
        if type(mark) in words:
            (bound,) = (
                getattr(mark, slot)
                for slot in ("ge", "gt", "le", "lt", "min_length", "max_length")
                if hasattr(mark, slot)
            )
            bounds.append(f"{words[type(mark)]} {bound}")
    return f" {' and '.join(bounds)}" if bounds else ""
