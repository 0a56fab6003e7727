"""`--print-config`: every effective value with its source.

Why: with four sources, a user must be able to see which value is in effect and where it comes from.
Must never: show a masked value, or the user and password of a URL.
Rules: `packaging#common-flags`.

The output is YAML and works as a `--config` file, masked values aside.
"""

import re
from collections.abc import Mapping

import yaml

from bigfleet.cli.framework.load import LoadedSettings
from bigfleet.cli.framework.options import Option, options_of
from bigfleet.cli.framework.settings import Flags

_USER_INFO = re.compile(r"(?<=://)[^/@\s]+(?=@)")
MASK = "****"


def effective(command: str, loaded: LoadedSettings[Flags]) -> str:
    """Return the settings as commented YAML."""
    lines = {
        option.flag: (_shown(option, getattr(loaded.settings, option.field)), _source(option, loaded.sources))
        for option in options_of(type(loaded.settings))
        if option.cli.in_file and not option.positional
    }
    width = max(len(f"{key}: {value}") for key, (value, _) in lines.items())
    body = "".join(f"{f'{key}: {value}':<{width}}  # {source}\n" for key, (value, source) in lines.items())
    return f"# Effective settings of {command}\n{body}"


def _shown(option: Option, value: object) -> str:
    if option.kind is None and isinstance(value, bool | int | float):
        return option.text(value)
    text = option.text(value)
    shown = MASK if option.cli.masked and text else _USER_INFO.sub(MASK, text)
    # A document of one scalar, for YAML's quoting, without its end marker.
    scalar = str(yaml.safe_dump(shown, default_flow_style=True, allow_unicode=True, width=10**6))
    return scalar.removesuffix("...\n").strip()


def _source(option: Option, sources: Mapping[str, str]) -> str:
    return sources.get(option.field, "default")
