"""Reads the documents and edits that arguments name.

Must never: interpret what it reads.
Rules: `engine#snapshot-form`, `engine#snapshot-strict`.
"""

import gzip
import zlib
from pathlib import Path

from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.errors import CommandError
from bigfleet.cli.framework.exit_codes import ExitCode

STDIN = Path("-")


def read_file(path: Path, console: Console) -> bytes:
    """Return the bytes of a file; `-` is standard input, a name that ends in .gz is decompressed."""
    data = console.stdin.read() if path == STDIN else path.read_bytes()
    if path.suffix != ".gz":
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error):
        raise CommandError(f"{path}: is not a gzip file", ExitCode.USAGE) from None
