"""A table that is a JSON file, replaced whole.

The loop changes tables in memory and asks for them to be saved. At most one write of a file is under way,
in a worker thread: a sync takes milliseconds that the loop does not have. Changes that arrive meanwhile
share the next write. Whoever must not go on before a change is on disk awaits `save`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeAlias, TypeVar

from pyromq.errors import BodyError, PyroError, StoreError
from pyromq.name_rules import shortened
from pyromq.store.atomic_file import keep_aside, read_with_backup, replace_file
from pyromq.store.files import Files, SystemFiles
from pyromq.wire.java_json import dumps

T = TypeVar("T")
V = TypeVar("V")
#: Says what is wrong with an entry of a table, by its name and what it is; None when nothing is.
WhyNot: TypeAlias = Callable[[str, V], str | None]
#: Writes a table to its file.
Save: TypeAlias = Callable[[], Awaitable[None]]

log = logging.getLogger(__name__)


class JsonTable:
    """One file, and how to write it from the table in memory. `files` are the machine's unless given."""

    def __init__(self, path: Path, encode: Callable[[], bytes], *, files: Files | None = None) -> None:
        self._path = path
        self._encode = encode
        self._files = files or SystemFiles()
        self._replace = partial(replace_file, path, files=files)
        self._keep_aside = partial(keep_aside, path, files=files)
        self._read = partial(read_with_backup, path, files=files)
        self._changes = 0
        self._saved = 0
        self._writing: asyncio.Task[None] | None = None
        #: Brings the log to the disk before each write: what a file says must not be ahead of the log there.
        self.sync_log: Callable[[], Awaitable[None]] | None = None

    def load(self, decode: Callable[[bytes], T], *, field: str) -> T | None:
        """Return what the file says, None when there is none; raise CorruptRecord when it does not read.

        A JSON object without `field`, which is the table, is damaged and not an empty table.
        """

        def decode_table(data: bytes) -> T:
            if f'"{field}"'.encode() not in data:
                raise BodyError(f"it has no {field}")
            return decode(data)

        return self._read(decode_table)

    def sift(self, entries: Mapping[str, V], why_not: WhyNot[V]) -> dict[str, V]:
        """Return the entries that a table may have, by their names; the others are kept beside the file.

        What a table holds is registered and answered as a whole:
        one entry that does not fit would take the others along, at every start.
        """
        reasons = {
            name: reason for name, entry in entries.items() if (reason := why_not(name, entry)) is not None
        }
        if not reasons:
            return dict(entries)
        aside = self._keep_aside(dumps({name: entries[name] for name in reasons}, pretty=True))
        for name, reason in reasons.items():
            log.error(
                "%s has an entry %s, which is illegal: %s; it is left out, and kept in %s",
                self._path,
                shortened(name),
                reason,
                aside.name,
            )
        self.changed_unsaved()
        return {name: entry for name, entry in entries.items() if name not in reasons}

    def remove(self) -> None:
        """Remove the file and its twin; what it said is found elsewhere."""
        for path in (self._path, self._path.with_name(self._path.name + ".bak")):
            if self._files.exists(path):
                self._files.remove(path)
        if self._files.exists(self._path.parent):
            self._files.sync_folder(self._path.parent)

    def replace_both(self) -> None:
        """Write the table to the file and to its twin, which is not to know better; this blocks."""
        for _ in range(2):
            self._replace(self._encode())
        self._saved = self._changes

    @property
    def is_saved(self) -> bool:
        """Whether all changes so far are on disk."""
        return self._saved == self._changes

    def has_saved(self, change: int) -> bool:
        """Return whether a change is on disk, by the number that `changed` gave it."""
        return self._saved >= change

    def changed(self) -> int:
        """Note a change and start to save it, and return its number; a failed write is mended by the next."""
        self._changes += 1
        if self._writing is None:
            self._begin_write().add_done_callback(_log_failure)
        return self._changes

    def changed_unsaved(self) -> None:
        """Note a change that a later `save` writes."""
        self._changes += 1

    async def save(self) -> None:
        """Return when all changes so far are on disk; raise StoreError when they cannot be written."""
        wanted = self._changes
        while self._saved < wanted:
            # Others wait for the same write: it must survive the one who is cancelled.
            await asyncio.shield(self._writing or self._begin_write())

    def _begin_write(self) -> "asyncio.Task[None]":
        self._writing = asyncio.get_running_loop().create_task(self._write(), name=f"write {self._path.name}")
        return self._writing

    async def _write(self) -> None:
        try:
            while self._saved < self._changes:
                saving, text = self._changes, self._encode()
                if self.sync_log is not None:
                    await self.sync_log()
                try:
                    await asyncio.to_thread(self._replace, text)
                except StoreError as error:
                    raise StoreError(f"{self._path} cannot be written: {error}") from error
                self._saved = saving
        finally:
            self._writing = None


def legal(entries: Mapping[str, V], why_not: WhyNot[V]) -> dict[str, V]:
    """Return the entries of a master's table that a table may have; the others are told in the log."""
    kept = {}
    for name, entry in entries.items():
        reason = why_not(name, entry)
        if reason is None:
            kept[name] = entry
        else:
            log.error("the master has an entry %s, which is left out here: %s", shortened(name), reason)
    return kept


def _log_failure(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("%s; it is tried again with the next change", error)


async def save_all(saves: Mapping[str, Save]) -> None:
    """Save each table, by its name in the log: one that cannot be written is no reason to lose the others."""
    for name, save in saves.items():
        try:
            await save()
        except PyroError as error:
            log.warning("what changed in %s since the last write is lost with this stop: %s", name, error)
        except Exception:
            log.exception("what changed in %s since the last write is lost with this stop", name)
