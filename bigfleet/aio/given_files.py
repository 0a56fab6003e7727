"""Reads and replaces files that a flag, an argument or another file names: regular files, and none larger than its kind may be.

Why: such a path may lead to a pipe, which would hold the program up for ever, to a device without an end, or to a file that
fills the memory. A process reads some of them again while it serves. A device that a new file replaces is gone for the
whole host.
Must never: wait for a writer, hold more than the limit, or replace anything but a regular file. Files that a process makes for
itself do not come through here: a journal has no fixed limit.
Rules: `packaging#given-files`.
"""

from os import fspath
from typing import Final

from bigfleet.aio.disk import PRIVATE_FILE, AnyPath, Disk, DiskCause, DiskError, OpenMode, atomic_write
from bigfleet.model.errors import InvalidFieldError

MIB: Final = 2**20

SETTINGS_BYTES: Final = MIB
"""Settings, certificates, secrets, tokens, templates: hundreds of times the usual size. No flag, as it bounds the file of flags."""
INVENTORY_BYTES: Final = 64 * MIB
"""Inventories, catalogues, scripts and simulated fleets: some 200,000 machines, each written out."""
ARCHIVE_BYTES: Final = 1024 * MIB
"""Backups of the coordinator: many times what 100,000 domains and their moves take."""

_OTHERS: Final = 0o007


class UnfitFileError(InvalidFieldError):
    """A path leads to something that is not read: no regular file, or a file that is too large."""

    def __init__(self, path: AnyPath, found: str, allowed: str) -> None:
        super().__init__(fspath(path), found, allowed)
        # `found` is a phrase, which the root's text would put in quotes.
        self.args = (f"{self.field}: found {found}, allowed is {allowed}",)


def read_given(disk: Disk, path: AnyPath, limit: int = SETTINGS_BYTES) -> bytes:
    """Return the content of a regular file of at most `limit` bytes."""
    try:
        with disk.open(path, OpenMode.READ) as file:
            size = file.size()
            if size > limit:
                raise too_large(path, size, limit)
            # No more than it had when it was opened, however fast it grows.
            return file.pread(0, size)
    except DiskError as error:
        if error.cause is DiskCause.NO_FILE:
            raise UnfitFileError(path, "a pipe, a socket or a device", "a regular file") from None
        raise


def check_replaceable(disk: Disk, path: AnyPath) -> None:
    """Refuse a path at which there is something other than a regular file, before any work is done for it."""
    if not disk.exists(path):
        return
    found = disk.stat(path)
    if not found.is_file:
        kind = "a directory" if found.is_directory else "a pipe, a socket or a device"
        raise UnfitFileError(path, kind, "a regular file, which is replaced, or a new name")


def replace_given(disk: Disk, path: AnyPath, data: bytes, permissions: int = PRIVATE_FILE) -> None:
    """Write a file atomically in place of the regular file at the path, if there is one."""
    check_replaceable(disk, path)
    atomic_write(disk, path, data, permissions)


def too_large(path: AnyPath, size: int | None, limit: int) -> UnfitFileError:
    """Return the refusal of a file; without a size, of one whose end was not looked for."""
    found = "more" if size is None else f"{size} bytes"
    return UnfitFileError(path, found, f"at most {size_text(limit)}")


def size_text(size: int) -> str:
    """Return a number of bytes as a person writes it."""
    return f"{size // MIB} MiB" if size and size % MIB == 0 else f"{size} bytes"


def open_to_others(disk: Disk, path: AnyPath) -> str:
    """Return what is wrong with the permissions of a secret file; empty when only its owner and group may use it.

    The group may read it, because Kubernetes mounts secrets that way for a process that is not root.
    """
    permissions = disk.stat(path).permissions
    if not permissions & _OTHERS:
        return ""
    return f"{fspath(path)}: found mode {permissions:04o}, which every user of the host may use, allowed is 0600 or 0640"
