"""A gzipped tar archive whose bytes depend only on names, contents and one time.

Must never: use an owner, a mode or a time from the disk.
"""

import gzip
import io
import tarfile
from collections.abc import Iterable


def packed(entries: Iterable[tuple[str, bytes]], epoch_s: int) -> bytes:
    """Return a gzipped tar of these files, in this order."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path, content in entries:
            entry = tarfile.TarInfo(path)
            entry.size, entry.mtime, entry.mode = len(content), epoch_s, 0o644
            archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(plain.getvalue(), compresslevel=9, mtime=0)
