"""The SQL filters of subscriptions: `consumerFilter.json`.

Subscriptions by tags need no file. SQL filters are refused by this broker, so the table has none; the file is
written because RocketMQ's broker and its tools expect it, and one that is there is left as it is.
"""

from pathlib import Path

from pyromq.broker.json_table import JsonTable
from pyromq.wire.java_json import dumps


class FilterTable:
    """The file of filters, for whoever opens this store next."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = JsonTable(path, lambda: dumps({"filterDataByTopic": {}}, pretty=True))

    async def save(self) -> None:
        """Write the file if there is none."""
        if not self._path.exists():
            self._file.changed_unsaved()
            await self._file.save()
