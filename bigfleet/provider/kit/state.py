"""Reads a provider's state at start and writes its snapshots.

Why: start is snapshot plus journal, then what the restart itself changes; the order decides what an old cursor shows.
Must never: let a book be read before it is whole.
Rules: providers 1.7 (after a restart), 4.1 (durable state, restart).
"""

from bigfleet.aio.clock import Clock
from bigfleet.aio.ids import Ids
from bigfleet.provider.kit.core.book import Book
from bigfleet.provider.kit.core.table import Codec
from bigfleet.provider.kit.entries import Decoder, Header, encode_snapshot
from bigfleet.provider.kit.store import Store


async def read_book(store: Store, codec: Codec, ids: Ids, clock: Clock) -> tuple[Book, bool]:
    """Return the book as it was left, and whether there was one; a new book has an incarnation of its own."""
    book, decoder = Book(codec), Decoder()
    found, head = False, 0
    for entry in store.open():
        for change in decoder.decode(entry):
            if isinstance(change, Header):
                book.incarnation, head, found = change.incarnation, max(head, change.head), True
            else:
                book.load(change)
        await clock.sleep(0)
    if found:
        book.opened(head)
    else:
        book.incarnation = ids.operation()
    return book, found


async def write_snapshot(store: Store, book: Book) -> None:
    """Replace what the store holds by the book as it is; calls go on meanwhile."""
    await store.snapshot(encode_snapshot(Header(book.incarnation, book.head), book.everything()))
