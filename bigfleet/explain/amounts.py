"""Amounts in readable form.

Must never: round. A suffix is used only where the amount stays exact.
"""

from collections.abc import Mapping

from bigfleet.model.resources import Resources

_BINARY = (("Ti", 40), ("Gi", 30), ("Mi", 20))
_WORDS = {"cpu": "CPU", "gpu": "GPU", "nvidia.com/gpu": "GPU", "amd.com/gpu": "GPU", "pods": "pod"}


def readable(texts: Mapping[str, str]) -> str:
    """Exact decimal texts as `cpu=4 memory=16Gi`; empty for nothing."""
    return " ".join(f"{name}={_short(text)}" for name, text in texts.items())


def amounts_text(amounts: Resources) -> str:
    """Amounts in a sentence."""
    return readable(amounts.texts()) or "nothing"


def amounts_words(amounts: Resources) -> str:
    """Amounts as people say them: `8 GPUs, 4 CPUs and 16Gi of memory`."""
    parts = [_words(name, _short(text)) for name, text in sorted(amounts.texts().items(), key=_by_weight)]
    if len(parts) < 2:
        return "".join(parts) or "nothing"
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def units_text(count: int) -> str:
    """A number of units."""
    return "1 unit" if count == 1 else f"{count} units"


def _by_weight(item: tuple[str, str]) -> tuple[bool, bool, str]:
    """GPUs first, then CPUs, then the rest by name."""
    word = _WORDS.get(item[0])
    return (word != "GPU", word != "CPU", item[0])


def _words(name: str, amount: str) -> str:
    word = _WORDS.get(name)
    if word is None:
        return f"{amount} of {name}"
    return f"{amount} {word}" if amount == "1" else f"{amount} {word}s"


def _short(text: str) -> str:
    if not text.isdigit():
        return text
    whole = int(text)
    for suffix, bits in _BINARY:
        if whole and whole % (1 << bits) == 0:
            return f"{whole >> bits}{suffix}"
    return text
