"""Amounts in readable form.

Must never: round. A suffix is used only where the amount stays exact.
"""

from collections.abc import Mapping

from bigfleet.model.resources import Resources

_BINARY = (("Ti", 40), ("Gi", 30), ("Mi", 20))


def readable(texts: Mapping[str, str]) -> str:
    """Exact decimal texts as `cpu=4 memory=16Gi`; empty for nothing."""
    return " ".join(f"{name}={_short(text)}" for name, text in texts.items())


def amounts_text(amounts: Resources) -> str:
    """Amounts in a sentence."""
    return readable(amounts.texts()) or "nothing"


def _short(text: str) -> str:
    if not text.isdigit():
        return text
    whole = int(text)
    for suffix, bits in _BINARY:
        if whole and whole % (1 << bits) == 0:
            return f"{whole >> bits}{suffix}"
    return text
