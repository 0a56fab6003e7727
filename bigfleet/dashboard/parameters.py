"""Checks the parameters of a request; an error names the wrong parameter and the allowed values.

Must never: accept a parameter that a route does not know; a misspelt filter would show everything.
Rules: `dashboard#compatible-routes`.
"""

import re
from collections.abc import Mapping
from typing import Final

from bigfleet.model.errors import BigFleetError

_DURATION: Final = re.compile(r"(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,8})s)?")
_LONGEST: Final = 10_240


class ParameterError(BigFleetError):
    """A parameter of a request is wrong."""

    def __init__(self, name: str, found: str, allowed: str) -> None:
        super().__init__(f"{name}: found {found[:80]!r}, allowed is {allowed}")
        self.name = name


class Parameters:
    """The parameters of one request, by name."""

    def __init__(self, query: Mapping[str, str], path: Mapping[str, str], known: frozenset[str]) -> None:
        for name, value in query.items():
            if name not in known:
                allowed = ", ".join(sorted(known)) or "no parameter"
                raise ParameterError(name, name, allowed)
            if len(value) > _LONGEST or "\0" in value:
                raise ParameterError(name, value, f"a text of at most {_LONGEST} characters without NUL")
        self._query, self._path = query, path

    def text(self, name: str, default: str = "") -> str:
        """Return a text."""
        return self._query.get(name, default)

    def texts(self, name: str) -> list[str]:
        """Return a list of texts separated by commas."""
        return [part for part in self._query.get(name, "").split(",") if part]

    def required(self, name: str) -> str:
        """Return a text; raises `ParameterError` if it is missing."""
        value = self._query.get(name, "")
        if not value:
            raise ParameterError(name, value, "any name; it is required")
        return value

    def path(self, name: str) -> str:
        """Return a part of the path."""
        return self._path[name]

    def choice(self, name: str, allowed: Mapping[str, object], default: str = "") -> str:
        """Return one of a few words."""
        value = self._query.get(name, default)
        if value not in allowed:
            raise ParameterError(name, value, "one of " + ", ".join(sorted(filter(None, allowed))))
        return value

    def number(self, name: str, default: int, *, least: int, most: int) -> int:
        """Return a whole number."""
        value = self._query.get(name, "")
        if not value:
            return default
        if not re.fullmatch(r"\d{1,18}", value) or not least <= int(value) <= most:
            raise ParameterError(name, value, f"a whole number from {least} to {most}")
        return int(value)

    def duration(self, name: str, default_s: float, *, most: float) -> float:
        """Return a time such as 30s or 1h30m, in seconds."""
        value = self._query.get(name, "")
        if not value:
            return default_s
        found = _DURATION.fullmatch(value)
        seconds = 0
        if found is not None:
            hours, minutes, rest = (int(part or 0) for part in found.groups())
            seconds = hours * 3600 + minutes * 60 + rest
        if not 0 < seconds <= most:
            raise ParameterError(name, value, f"a time such as 30s or 1h, at most {round(most)}s")
        return float(seconds)
