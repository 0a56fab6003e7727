"""Changes of a seed: what a broken sender, a cut connection or an attacker makes of valid bytes.

Why: random bytes are refused at the first one; what gets deep into a parser is nearly valid.
Must never: draw anything itself. Every choice is an argument, so that a failing input can be made smaller and met again.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

MOST_BYTES: Final = 8192
"""Of one input: what takes larger ones to show is looked for in the tests of growth."""

# What makes parsers of text, of protobuf and of frames go wrong: ends, signs, brackets, lengths, halves of characters.
WORDS: Final = (
    b"",
    b"\x00",
    b"\xff",
    b"\xff" * 4,
    b"\xff" * 9 + b"\x01",
    b"\x80" * 10,
    b"\n",
    b"\t",
    b"\\ud800",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b'"',
    b"'",
    b"{",
    b"}",
    b"[",
    b"]",
    b": ",
    b", ",
    b"- ",
    b"? ",
    b"&a ",
    b"*a",
    b"<<: ",
    b"!!int ",
    b"!!binary ",
    b"%TAG ! x\n",
    b"---\n",
    b"# ",
    b"|\n ",
    b"~",
    b"-1",
    b"0",
    b"1e999",
    b"NaN",
    b"-Infinity",
    b".inf",
    b"0b_",
    b"1:59",
    b"2001-99-99",
    b"9" * 5000,
    b"9223372036854775808",
    b"true",
    b"null",
    b"[" * 300,
    b"{a: " * 120,
    b"a" * 300,
    b"../../etc/passwd",
    "\u202e\u00e9".encode(),
)


class Change(Enum):
    """What is done to the bytes at a place."""

    INSERT = "insert a word"
    REPLACE = "put a word over what is there"
    DELETE = "leave some bytes out"
    REPEAT = "say some bytes again, many times"
    FLIP = "flip a bit"
    CUT = "end there"


@dataclass(frozen=True, slots=True)
class Mutation:
    """One change; numbers are taken modulo what there is, so that every draw means something."""

    change: Change
    place: int
    length: int
    word: bytes


def mutated(seed: bytes, mutations: list[Mutation]) -> bytes:
    """Return the seed after all changes, in order."""
    data = seed
    for mutation in mutations:
        data = _after(data, mutation)[:MOST_BYTES]
    return data


def _after(data: bytes, mutation: Mutation) -> bytes:
    at = mutation.place % (len(data) + 1)
    end = min(len(data), at + 1 + mutation.length % 64)
    match mutation.change:
        case Change.INSERT:
            return data[:at] + mutation.word + data[at:]
        case Change.REPLACE:
            return data[:at] + mutation.word + data[at + len(mutation.word) :]
        case Change.DELETE:
            return data[:at] + data[end:]
        case Change.REPEAT:
            return data[:at] + data[at:end] * (1 + mutation.length % 16) + data[end:]
        case Change.FLIP:
            if at == len(data):
                return data
            return data[:at] + bytes((data[at] ^ (1 << mutation.length % 8),)) + data[at + 1 :]
        case Change.CUT:
            return data[:at]
