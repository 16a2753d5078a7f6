"""The small table of shared settings, by namespace and key, kept in `kvConfig.json`.

It is the only thing that a name server keeps: routes come back with the brokers. RocketMQ stores the queue
counts of ordered topics in it, under ORDER_TOPIC_CONFIG.
"""

import asyncio
from pathlib import Path

import msgspec

from pyromq.codes import ResponseCode
from pyromq.errors import BodyError, Refused, StoreError
from pyromq.store.atomic_file import read_with_backup, replace_file
from pyromq.store.files import Files
from pyromq.wire.bodies.body import Body, read_body
from pyromq.wire.java_json import dumps

#: «broker-a:4;broker-b:4» by topic.
ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"
#: Anybody may put; this many keys are enough for everybody.
KEYS_MAX = 100_000


class KvConfigFile(Body, kw_only=True, frozen=True):
    """What `kvConfig.json` holds."""

    config_table: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)


class KeyValues:
    """Values by namespace and key. Without a path they are forgotten at the end."""

    def __init__(self, path: Path | None, *, files: Files | None = None) -> None:
        self._path = path
        self._files = files
        self._table: dict[str, dict[str, str]] = {}
        self._writing = asyncio.Lock()

    def load(self) -> None:
        """Read the file; raise CorruptRecord when neither it nor its `.bak` reads."""
        if self._path is not None:
            saved = read_with_backup(self._path, _decode, files=self._files)
            self._table = {} if saved is None else saved.config_table

    def get(self, namespace: str, key: str) -> str | None:
        """Return a value, or None."""
        return self._table.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> dict[str, str] | None:
        """Return the values of a namespace, or None when nothing was ever put there."""
        return self._table.get(namespace)

    async def put(self, namespace: str, key: str, value: str) -> None:
        """Set a value; it is on disk when this returns."""
        if self.get(namespace, key) is None and sum(map(len, self._table.values())) >= KEYS_MAX:
            raise Refused(
                ResponseCode.SYSTEM_ERROR, f"the KV table has {KEYS_MAX} keys; delete some before you add any"
            )
        self._table.setdefault(namespace, {})[key] = value
        await self._save()

    async def delete(self, namespace: str, key: str) -> None:
        """Remove a value; its namespace stays, as RocketMQ's does."""
        self._table.get(namespace, {}).pop(key, None)
        await self._save()

    async def _save(self) -> None:
        if self._path is None:
            return
        # Each write takes the table as it is when its turn comes, so the file never goes back in time.
        async with self._writing:
            data = dumps({"configTable": self._table})
            try:
                await asyncio.to_thread(replace_file, self._path, data, files=self._files)
            except StoreError as error:
                raise Refused(
                    ResponseCode.SYSTEM_ERROR,
                    f"the change holds until this name server stops, because it cannot be written: {error}",
                ) from error


def _decode(data: bytes) -> KvConfigFile:
    # Without its one field the file is not an empty table, but one whose field has another name now.
    if b'"configTable"' not in data:
        raise BodyError("it has no configTable")
    return read_body(KvConfigFile, data)
