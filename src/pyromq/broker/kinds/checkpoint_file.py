"""The checkpoint of a kind as a JSON file: it never says more than the log on the disk."""

from pathlib import Path

from pyromq.broker.durability.acknowledgement import Durability
from pyromq.broker.json_table import JsonTable
from pyromq.store.files import Files


class CheckpointFile(JsonTable):
    """A file that speaks for the log up to some place, written once the disk has the log up to there."""

    def __init__(self, path: Path, *, files: Files | None = None) -> None:
        super().__init__(path, lambda: self._text, files=files)
        self._text = b""

    async def write(self, text: bytes, durability: Durability) -> None:
        """Sync the log, and then make this the file's text."""
        self.sync_log, self._text = durability.sync_now, text
        self.changed_unsaved()
        await self.save()
