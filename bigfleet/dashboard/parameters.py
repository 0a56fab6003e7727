"""Checks the parameters of a request; an error names the wrong parameter and the allowed values.

Must never: accept a parameter that one of our own routes does not know, since a misspelt filter would show everything.
Compatible routes ignore it, as the original does.
Rules: `dashboard#parameters`, `dashboard#lenient-parameters`. ADR-0221.
"""

import re
from collections.abc import Mapping
from typing import Final

from bigfleet.model.errors import BigFleetError

_PART: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})(ns|us|µs|μs|ms|s|m|h)")
_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_LONGEST: Final = 10_240


class ParameterError(BigFleetError):
    """A parameter of a request is wrong."""

    def __init__(self, name: str, found: str, allowed: str) -> None:
        super().__init__(f"{name}: found {found[:80]!r}, allowed is {allowed}")
        self.name = name


class Parameters:
    """The parameters of one request, by name."""

    def __init__(
        self,
        query: Mapping[str, str],
        path: Mapping[str, str],
        known: frozenset[str],
        *,
        ignores_others: bool = False,
    ) -> None:
        for name, value in query.items():
            if name not in known:
                if ignores_others:
                    continue
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

    def lenient_number(self, name: str, default: int, *, most: int) -> int:
        """Return a whole number from 1 up, clamped; what is no such number becomes the default."""
        value = self._query.get(name, "")
        if not re.fullmatch(r"\+?[0-9]{1,18}", value) or not int(value):
            return default
        return min(int(value), most)

    def lenient_duration(self, name: str, default_s: float, *, most: float) -> float:
        """Return a time such as 30s or 1h30m in seconds, clamped; what is no such time becomes the default."""
        value = self._query.get(name, "").removeprefix("+")
        parts = _PART.findall(value)
        if not parts or "".join(number + unit for number, unit in parts) != value:
            return default_s
        seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
        return min(seconds, most) if seconds > 0 else default_s
