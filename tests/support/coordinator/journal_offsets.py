"""Where the entries of a journal file begin, for tests that damage one of them."""

from bigfleet.coordinator.raft.records import FIELDS, HEAD, MAGIC


def offsets(journal: bytes) -> list[int]:
    """Return the offset of every entry of an undamaged journal, by order."""
    found: list[int] = []
    at = len(MAGIC)
    while at < len(journal):
        length, _ = HEAD.unpack_from(journal, at)
        index, _, _ = FIELDS.unpack_from(journal, at + HEAD.size)
        if index:
            found.append(at)
        at += HEAD.size + length
    return found
