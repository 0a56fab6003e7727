"""The durable store: a snapshot and the journal of later changes, in one directory.

Must never: report an entry before it is synced, write after a failed sync (it is unknown what reached the disk), delete a
journal before the snapshot that replaces it is durable, or share its directory with another process.
Rules: `providers#durable-state`, `providers#persist-before-ack`.

Entries that arrive during a sync share the next one. `bigfleet.provider.kit.state_directory` knows the files.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from os import fspath

from bigfleet.aio.clock import NANOSECONDS, Clock, SystemClock
from bigfleet.aio.disk import AnyPath, Disk, DiskError, Lock, ensure_directory
from bigfleet.aio.rng import Rng, SystemRng
from bigfleet.aio.system_disk import SystemDisk
from bigfleet.model.errors import BigFleetError
from bigfleet.provider.kit.frames import pack
from bigfleet.provider.kit.state_directory import StateDirectory
from bigfleet.provider.kit.store import Written

SNAPSHOT_AFTER_BYTES = 64 << 20


class BrokenStoreError(BigFleetError):
    """The store cannot be used until the process restarts."""


@dataclass(frozen=True, slots=True)
class _Rotate:
    """A request in the queue to begin the next journal."""

    done: "asyncio.Future[int]"

    def end(self, how: int | BigFleetError) -> None:
        """Resolve the future with the new generation, or with the reason why there is none."""
        if self.done.done():
            return
        if isinstance(how, int):
            self.done.set_result(how)
        else:
            self.done.set_exception(how)


class _NotWrittenError(BigFleetError):
    """A batch was not written; the file is as before."""


class Journal:
    """A provider's state in a directory."""

    def __init__(
        self,
        directory: AnyPath,
        *,
        disk: Disk | None = None,
        clock: Clock | None = None,
        rng: Rng | None = None,
        snapshot_after_bytes: int = SNAPSHOT_AFTER_BYTES,
    ) -> None:
        self._directory = fspath(directory)
        self._disk: Disk = disk or SystemDisk()
        self._files = StateDirectory(self._disk, self._directory)
        self._clock = clock or SystemClock()
        self._salts = (rng or SystemRng()).stream("provider/journal")
        self._snapshot_after_bytes = snapshot_after_bytes
        self._observe: Callable[[float], object] = lambda _seconds: None
        self._lock: Lock | None = None
        self._length = 0
        self._synced = 0
        self._queue: deque[tuple[bytes, Written] | _Rotate] = deque()
        self._writer: asyncio.Task[None] | None = None
        self._failure: BigFleetError | None = None
        self._on_failure: asyncio.Future[BigFleetError] | None = None

    def open(self) -> Iterator[bytes]:
        ensure_directory(self._disk, self._directory)
        self._lock = self._disk.lock(self._directory)
        yield from self._files.read()
        if self._files.journal is not None:
            self._length = self._synced = self._files.journal.length

    def append(self, entry: bytes, written: Written) -> None:
        if self._failure is not None:
            written(self._failure)
            return
        self._queue.append((entry, written))
        self._wake()

    @property
    def wants_snapshot(self) -> bool:
        return self._failure is None and self._length > max(
            self._snapshot_after_bytes, self._files.snapshot_bytes
        )

    async def snapshot(self, entries: Iterator[bytes]) -> None:
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._queue.append(_Rotate(done))
        self._wake()
        generation = await done
        salt = self._salts.getrandbits(32)
        writer = await asyncio.to_thread(self._files.begin_snapshot, generation, salt)
        try:
            # Entries are made on the event loop, between calls; only the disk is waited for in a thread.
            for entry in entries:
                await asyncio.to_thread(writer.add, entry)
            await asyncio.to_thread(writer.finish)
        finally:
            writer.close()
        await asyncio.to_thread(self._files.remove_older_journals, generation)

    @property
    def failure(self) -> BigFleetError | None:
        return self._failure

    async def wait_failure(self) -> BigFleetError:
        if self._failure is not None:
            return self._failure
        if self._on_failure is None:
            self._on_failure = asyncio.get_running_loop().create_future()
        return await asyncio.shield(self._on_failure)

    def observe_syncs(self, observe: Callable[[float], object]) -> None:
        self._observe = observe

    async def close(self) -> None:
        while self._writer is not None:
            await asyncio.wait([self._writer])
        self._files.close()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    # The writer task, which runs while there is something to write.

    def _wake(self) -> None:
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(
                self._write_queue(), name="provider journal"
            )
            self._writer.add_done_callback(self._on_writer_ended)

    def _on_writer_ended(self, ended: "asyncio.Task[None]") -> None:
        problem = ended.exception() if not ended.cancelled() else None
        if problem is not None:
            self._break(BrokenStoreError(f"{self._directory}: the journal's writer ended: {problem}"))

    async def _write_queue(self) -> None:
        try:
            while self._queue:
                item = self._queue[0]
                if isinstance(item, _Rotate):
                    self._queue.popleft()
                    await self._rotate(item)
                else:
                    await self._write_batch(self._next_batch())
        finally:
            # Here and not in a callback, so that the next append starts another writer.
            self._writer = None

    def _next_batch(self) -> list[tuple[bytes, Written]]:
        batch: list[tuple[bytes, Written]] = []
        while self._queue:
            item = self._queue[0]
            if isinstance(item, _Rotate):
                break
            batch.append(item)
            self._queue.popleft()
        return batch

    async def _write_batch(self, batch: list[tuple[bytes, Written]]) -> None:
        problem: BigFleetError | None = self._failure or BrokenStoreError(
            f"{self._directory}: writing was cut off"
        )
        try:
            if self._failure is None:
                seconds = await asyncio.to_thread(self._write, [entry for entry, _ in batch])
                self._observe(seconds)
                problem = None
        except _NotWrittenError as refused:
            problem = refused
        except BigFleetError as broken:
            problem = broken
            self._break(broken)
        finally:  # every caller gets a result
            for _, written in batch:
                written(problem)

    def _write(self, entries: list[bytes]) -> float:
        """Write entries and sync once; return how long the sync took."""
        journal = self._files.journal
        if journal is None:
            raise BrokenStoreError(f"{self._directory}: the store was not opened")
        file, salt, offset = journal.file, journal.header.salt, self._length
        frames: list[bytes] = []
        for entry in entries:
            frames.append(pack(entry, salt=salt, offset=offset, synced=self._synced))
            offset += len(frames[-1])
        try:
            file.pwrite(self._length, b"".join(frames))
        except DiskError as error:
            # Nothing of it may come back after a crash: the callers get the error that nothing was accepted.
            file.truncate(self._length)
            file.datasync()
            raise _NotWrittenError(str(error)) from error
        started = self._clock.monotonic_ns()
        file.datasync()
        seconds = (self._clock.monotonic_ns() - started) / NANOSECONDS
        self._length = self._synced = offset
        # An empty frame that says how much is synced; if it does not reach the disk, no entry is lost.
        witness = pack(b"", salt=salt, offset=offset, synced=offset)
        with suppress(DiskError):
            file.pwrite(offset, witness)
            self._length += len(witness)
        return seconds

    async def _rotate(self, item: _Rotate) -> None:
        try:
            if self._failure is not None:
                raise self._failure
            salt = self._salts.getrandbits(32)
            journal = await asyncio.to_thread(self._files.begin_journal, self._synced, salt)
        except BigFleetError as error:
            item.end(error)
        except BaseException:
            item.end(BrokenStoreError(f"{self._directory}: writing was cut off"))
            raise
        else:
            self._length = self._synced = journal.length
            item.end(journal.header.generation)

    def _break(self, failure: BigFleetError) -> None:
        if self._failure is not None:
            return
        self._failure = failure
        if self._on_failure is not None and not self._on_failure.done():
            self._on_failure.set_result(failure)
        queue, self._queue = self._queue, deque()
        for item in queue:
            if isinstance(item, _Rotate):
                item.end(failure)
            else:
                item[1](failure)
