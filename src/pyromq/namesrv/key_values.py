"""The small table of shared settings, by namespace and key, kept in `kvConfig.json`.

It is the only thing that a name server keeps: routes come back with the brokers. RocketMQ stores the queue
counts of ordered topics in it, under ORDER_TOPIC_CONFIG.
"""

import asyncio
import logging
from pathlib import Path

import msgspec

from pyromq.codes import ResponseCode
from pyromq.errors import BodyError, Refused, StoreError
from pyromq.name_rules import TEXT_CHARACTERS_MAX, WORD_CHARACTERS_MAX
from pyromq.store.atomic_file import keep_aside, read_with_backup, replace_file
from pyromq.store.files import Files
from pyromq.wire.bodies.body import Body, read_body
from pyromq.wire.java_json import dumps

_log = logging.getLogger("pyromq.namesrv")

#: `broker-a:4;broker-b:4` by topic.
ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"
#: Anybody may put; this many keys are enough for everybody.
KEYS_MAX = 100_000
#: A namespace is answered as a whole, that of ordered topics to every broker that registers.
TABLE_CHARACTERS_MAX = 2 * 1024 * 1024


class KvConfigFile(Body, kw_only=True, frozen=True):
    """The content of `kvConfig.json`."""

    config_table: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)


class KeyValues:
    """Values by namespace and key. Without a path they are forgotten at the end."""

    def __init__(self, path: Path | None, *, files: Files | None = None) -> None:
        self._path = path
        self._files = files
        self._table: dict[str, dict[str, str]] = {}
        self._characters = 0
        self._writing = asyncio.Lock()

    def load(self) -> None:
        """Read the file; raise CorruptRecord when neither it nor its `.bak` reads."""
        if self._path is not None:
            saved = read_with_backup(self._path, _decode, files=self._files)
            self._table = {} if saved is None else self._sifted(self._path, saved.config_table)
            self._characters = sum(map(_characters_of, self._table.values()))

    def _sifted(self, path: Path, table: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
        """Return what may be in the table; the rest is kept beside its file, and told in the log."""
        kept: dict[str, dict[str, str]] = {}
        illegal: dict[str, dict[str, str]] = {}
        for namespace, values in table.items():
            for key, value in values.items():
                is_legal = _is_legal(namespace, key, value)
                (kept if is_legal else illegal).setdefault(namespace, {})[key] = value
            if not values:
                kept[namespace] = {}
        if illegal:
            aside = keep_aside(path, dumps({"configTable": illegal}), files=self._files)
            count = sum(map(len, illegal.values()))
            _log.error("%s has %d keys or values that are too long; they are kept in %s", path, count, aside)
        return kept

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
        if not _is_legal(namespace, key, value):
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"a namespace and a key may have {WORD_CHARACTERS_MAX} characters, a value "
                f"{TEXT_CHARACTERS_MAX}",
            )
        before = self.get(namespace, key)
        added = len(value) - len(before) if before is not None else len(key) + len(value)
        if self._characters + added > TABLE_CHARACTERS_MAX:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"the KV table would have more than {TABLE_CHARACTERS_MAX} characters; delete some first",
            )
        self._characters += added
        self._table.setdefault(namespace, {})[key] = value
        await self._save()

    async def delete(self, namespace: str, key: str) -> None:
        """Remove a value; its namespace stays, as RocketMQ's does."""
        before = self._table.get(namespace, {}).pop(key, None)
        if before is not None:
            self._characters -= len(key) + len(before)
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


def _is_legal(namespace: str, key: str, value: str) -> bool:
    return (
        len(namespace) <= WORD_CHARACTERS_MAX
        and len(key) <= WORD_CHARACTERS_MAX
        and len(value) <= TEXT_CHARACTERS_MAX
    )


def _characters_of(values: dict[str, str]) -> int:
    return sum(map(len, values)) + sum(map(len, values.values()))


def _decode(data: bytes) -> KvConfigFile:
    # Without its one field the file is not an empty table, but one whose field has another name now.
    if b'"configTable"' not in data:
        raise BodyError("it has no configTable")
    return read_body(KvConfigFile, data)
