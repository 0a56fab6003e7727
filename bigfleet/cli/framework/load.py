"""Loads settings from flags, environment, file and defaults, and records the source of each value.

Why: with several sources, the order must be fixed and the effective source visible.
Must never: accept an unknown key, show a masked value, or read anything but the environment and the given file.
Rules: `packaging#settings-sources`, `packaging#kept-variables`, `packaging#common-flags`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from pydantic import ValidationError

from bigfleet.cli.framework.errors import UnreadableValueError, UsageError
from bigfleet.cli.framework.options import Option, options_of
from bigfleet.cli.framework.settings import KEPT_VARIABLES, Flags
from bigfleet.cli.framework.tree import near_miss
from bigfleet.cli.framework.values import parse_boolean

S = TypeVar("S", bound=Flags)
_SHOWN: Final = 200  # of a value or key, so that a refusal stays a line
OtherSettings = Callable[[], Iterable[type[Flags]]]


@dataclass(frozen=True, slots=True)
class _Given:
    """A value as its source gave it, and the name of the source."""

    value: object
    source: str


@dataclass(frozen=True, slots=True)
class LoadedSettings(Generic[S]):
    """Settings with the source of each value by field; fields that are not in `sources` have their default."""

    settings: S
    sources: dict[str, str]


def load(
    settings: type[S],
    texts: Mapping[str, Sequence[str]],
    environ: Mapping[str, str],
    other_settings: OtherSettings = tuple,
) -> LoadedSettings[S]:
    """Build the settings from parsed flags, environment and config file.

    `other_settings` returns the settings of the program's other commands. It imports them all, so it is called only when
    the environment has a variable with this command's prefix that this command does not know.
    """
    options = options_of(settings)
    _refuse_unknown_variables(settings, options, environ, other_settings)
    layers = [_from_flags(options, texts), _from_environment(options, environ)]
    config = layers[0].get("config") or layers[1].get("config")
    if config is not None and config.value:
        layers.append(_from_file(options, Path(str(config.value))))
    given = {name: value for layer in reversed(layers) for name, value in layer.items()}
    # Any: the settings class validates each value.
    values: dict[str, Any] = {
        option.field: _prepared(option, given[option.field]) for option in options if option.field in given
    }
    try:
        filled = settings(**values)
    except ValidationError as error:
        raise UsageError("; ".join(_error_lines(error, options, given))) from None
    return LoadedSettings(filled, {name: value.source for name, value in given.items()})


def _from_flags(options: Iterable[Option], texts: Mapping[str, Sequence[str]]) -> dict[str, _Given]:
    return {
        option.field: _Given(list(found) if option.many else found[-1], "flag")
        for option in options
        if (found := texts.get(option.field))
    }


def _from_environment(options: Iterable[Option], environ: Mapping[str, str]) -> dict[str, _Given]:
    found = {}
    for option in options:
        name = next((name for name in option.variables if name in environ), None)
        if name is not None:
            found[option.field] = _Given(environ[name], f"environment {name}")
    return found


def _from_file(options: Iterable[Option], path: Path) -> dict[str, _Given]:
    document = _document(path)
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise UsageError(
            f"--config: {path}: found a {type(document).__name__}, allowed is a mapping keyed by flag name"
        )
    known = {option.flag: option for option in options if option.cli.in_file and not option.positional}
    for key in document:
        if key not in known:
            shown = _cut(str(key))
            raise UsageError(f"--config: {path}: unknown key {shown}{near_miss(shown, list(known))}")
    return {known[key].field: _Given(value, f"file {path}") for key, value in document.items()}


def _document(path: Path) -> object:
    # Imported here: most runs have no file.
    import yaml

    from bigfleet.aio.disk import DiskError
    from bigfleet.aio.given_files import UnfitFileError, read_given
    from bigfleet.aio.system_disk import SystemDisk
    from bigfleet.document.strict_yaml import load_strict_yaml, problem_of

    try:
        return load_strict_yaml(read_given(SystemDisk(), path))
    except DiskError as error:
        raise UsageError(f"--config: {path}: {error.reason}") from None
    except UnfitFileError as error:
        raise UsageError(f"--config: {error}") from None
    except yaml.YAMLError as error:
        raise UsageError(f"--config: {path}: {problem_of(error)}") from None


def _refuse_unknown_variables(
    settings: type[Flags],
    options: Iterable[Option],
    environ: Mapping[str, str],
    other_settings: OtherSettings,
) -> None:
    prefix = settings.model_config.get("env_prefix", "")
    known = {name for option in options for name in option.variables}
    unknown = sorted(
        n for n in environ if prefix and n.startswith(prefix) and n not in known and n not in KEPT_VARIABLES
    )
    if not unknown:
        return
    others = list(other_settings())
    # A longer prefix belongs to another command (BIGFLEET_X_ and BIGFLEET_X_Y_). Verbs of one program share a prefix, and
    # each knows only a part of its keys.
    longer = tuple(
        p
        for other in others
        if (p := other.model_config.get("env_prefix", "")) != prefix and p.startswith(prefix)
    )
    shared = {name for other in others for option in options_of(other) for name in option.variables}
    for name in unknown:
        if not name.startswith(longer) and name not in shared:
            raise UsageError(f"unknown environment variable {name}{near_miss(name, sorted(known))}")


def _prepared(option: Option, given: _Given) -> object:
    """Convert a raw value to the form that a flag gives, so that all sources are read by one rule."""
    value = given.value
    if option.many:
        parts = value if isinstance(value, list) else [value]
        return tuple(piece for part in parts for piece in str(part).split(",") if piece)
    if option.optional and value == "":
        return None
    if not option.takes_value:
        if isinstance(value, bool):
            return value
        try:
            return parse_boolean(str(value))
        except UnreadableValueError:
            return value  # the settings class refuses it, together with all other errors
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)  # YAML reads 0 and 7780 as numbers; a flag gives text
    return value


def _error_lines(error: ValidationError, options: Iterable[Option], given: Mapping[str, _Given]) -> list[str]:
    by_field = {option.field: option for option in options}
    lines = []
    for fault in error.errors(include_url=False, include_input=False):
        option = by_field.get(str(fault["loc"][0])) if fault["loc"] else None
        cause = fault.get("ctx", {}).get("error")
        if option is None:  # a rule about several fields; the settings class has the text
            lines.append(str(cause))
            continue
        if fault["type"] == "missing":
            lines.append(f"{option.label}: missing, allowed is {option.allowed}{_ways(option)}")
            continue
        allowed = cause.allowed if isinstance(cause, UnreadableValueError) else option.allowed
        lines.append(f"{option.label}: {_found(option, given)}, allowed is {allowed}")
    return list(dict.fromkeys(lines))


def _found(option: Option, given: Mapping[str, _Given]) -> str:
    value = given[option.field]
    shown = "a value" if option.cli.masked else _cut(repr(value.value))
    return f"found {shown}" + ("" if value.source == "flag" else f" in {value.source}")


def _ways(option: Option) -> str:
    return f" (flag, environment {option.variable}, or file)" if option.variable else ""


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
