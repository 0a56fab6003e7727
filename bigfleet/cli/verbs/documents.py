"""Reads the documents and edits that arguments name, up to a size.

Why: a document comes from another person or program; a compressed one of a megabyte can unfold into a gigabyte.
Must never: interpret what it reads, or hold more than `--max-document` allows.
Rules: `engine#snapshot-form`, `engine#snapshot-strict`, `packaging#given-files`.
"""

import gzip
import io
import zlib
from pathlib import Path
from typing import ClassVar, Final

from pydantic import Field

from bigfleet.aio.given_files import MIB, UnfitFileError, read_given, too_large
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.cli.framework.console import Console
from bigfleet.cli.framework.errors import CommandError
from bigfleet.cli.framework.exit_codes import ExitCode
from bigfleet.cli.framework.kinds import ByteSize
from bigfleet.cli.framework.settings import Flags

STDIN = Path("-")
DOCUMENT_BYTES: Final = 512 * MIB


class DocumentFlags(Flags):
    """Flags of commands that read documents."""

    group_title: ClassVar[str] = "Document flags"

    max_document: ByteSize = Field(
        default=DOCUMENT_BYTES,
        ge=1,
        description="largest document to read, as it is and decompressed: a shard of 500,000 machines writes less than half of "
        "the default, and reading takes several times its size in memory",
    )


def read_file(path: Path, console: Console, limit: int = DOCUMENT_BYTES) -> bytes:
    """Return the bytes of a file; `-` is standard input, a name that ends in .gz is decompressed.

    Another path must lead to a regular file: a pipe that nothing writes to would hold the command up for ever.
    """
    data = _standard_input(console, limit) if path == STDIN else _content(path, limit)
    if path.suffix != ".gz":
        return data
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
            unpacked = packed.read(limit + 1)
    except (OSError, EOFError, zlib.error):
        raise CommandError(f"{path}: is not a gzip file", ExitCode.USAGE) from None
    if len(unpacked) > limit:
        raise too_large(f"{path}, decompressed", None, limit)
    return unpacked


def _content(path: Path, limit: int) -> bytes:
    try:
        return read_given(SystemDisk(), path, limit)
    except UnfitFileError as error:
        hint = "; - is standard input" if "regular" in error.allowed else "; --max-document allows more"
        raise CommandError(f"{error}{hint}", ExitCode.USAGE) from None


def _standard_input(console: Console, limit: int) -> bytes:
    data = console.stdin.read(limit + 1)
    if len(data) > limit:
        raise too_large("standard input", None, limit)
    return data
