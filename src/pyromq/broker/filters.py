"""The SQL filters of subscriptions: `consumerFilter.json`.

Subscriptions by tags need no file. SQL filters are refused by this broker, so the table has none; the file is
written because RocketMQ's broker and its tools expect it, and one that is there is left as it is.
"""

from pathlib import Path

from pyromq.broker.json_table import JsonTable
from pyromq.store.files import Files, SystemFiles
from pyromq.wire.java_json import dumps


class FilterTable:
    """The file of filters, for whoever opens this store next."""

    def __init__(self, path: Path, *, files: Files | None = None) -> None:
        self._path = path
        self._files = files or SystemFiles()
        self._file = JsonTable(path, lambda: dumps({"filterDataByTopic": {}}, pretty=True), files=self._files)

    async def save(self) -> None:
        """Write the file if there is none."""
        if not self._files.exists(self._path):
            self._file.changed_unsaved()
            await self._file.save()
