"""A table that is a JSON file, replaced whole.

The loop changes tables in memory and asks for them to be saved. At most one write of a file is under way,
in a worker thread: a sync takes milliseconds that the loop does not have. Changes that arrive meanwhile
share the next write. Whoever must not go on before a change is on disk awaits `save`.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from pyromq.errors import StoreError
from pyromq.store.atomic_file import replace_file

log = logging.getLogger(__name__)


class JsonTable:
    """One file, and how to write it from the table in memory."""

    def __init__(self, path: Path, encode: Callable[[], bytes]) -> None:
        self._path = path
        self._encode = encode
        self._changes = 0
        self._saved = 0
        self._writing: asyncio.Task[None] | None = None

    @property
    def is_saved(self) -> bool:
        """Whether all changes so far are on disk."""
        return self._saved == self._changes

    def changed(self) -> None:
        """Note a change and start to save it; a failure is logged and mended by the next save."""
        self._changes += 1
        if self._writing is None:
            self._begin_write().add_done_callback(_log_failure)

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
                saving = self._changes
                try:
                    await asyncio.to_thread(replace_file, self._path, self._encode())
                except OSError as error:
                    raise StoreError(f"{self._path} cannot be written: {error}") from error
                self._saved = saving
        finally:
            self._writing = None


def _log_failure(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("%s; it is tried again with the next change", error)
