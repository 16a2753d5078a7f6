"""Offsets of a broadcasting consumer in a local file: each member reads all queues, so no broker keeps them.

The file is RocketMQ's, in place and form, so that a Java consumer can be replaced by ours and back:

    ~/.rocketmq_offsets/CLIENT_ID/GROUP/offsets.json       {"offsetTable":{{"brokerName":"a",…}:12,…}}
                                        offsets.json.bak   the one before

It is replaced whole: the new one is written beside it and synced, the old one becomes `.bak`, and the new one
takes its name. A crash in between leaves `.bak`, which is read then. Only calls that every system has are
used here: the store's own way to do this needs POSIX.
"""

import contextlib
import logging
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pyromq.config.settings import ClientSettings
from pyromq.errors import BodyError, ConfigError, CorruptRecord, StoreError
from pyromq.model import MessageQueue
from pyromq.wire.java_json import ObjectKey, dumps, loads

_log = logging.getLogger("pyromq.client")

FOLDER: Final = ".rocketmq_offsets"
FILE: Final = "offsets.json"
_TABLE: Final = "offsetTable"


def home_folder() -> Path:
    """Return where RocketMQ keeps these files unless it is told otherwise."""
    return Path.home() / FOLDER


def offsets_file(settings: ClientSettings, client_id: str, group: str) -> "BroadcastOffsets":
    """Return the file of a client in a group, both by their names on the wire, where its settings say."""
    folder = settings.local_offset_store_dir
    return BroadcastOffsets(Path(folder) if folder else home_folder(), client_id, group)


class BroadcastOffsets:
    """The offsets file of one client in one group. Its methods block, but not for long."""

    def __init__(self, folder: Path, client_id: str, group: str) -> None:
        for name in (client_id, group):
            if name in ("", ".", "..") or "/" in name or "\\" in name:
                raise ConfigError(f"{name!r} cannot be the name of a folder for offsets; choose another")
        self.path = folder / client_id / group / FILE
        #: A save that nobody waits for any more may still be at work when the last one comes.
        self._turn = threading.Lock()

    def load(self) -> dict[MessageQueue, int]:
        """Return the offset to read next in each queue; nothing when there is no file yet.

        A damaged file is reported, and its `.bak` taken. Raises CorruptRecord when that does not help, and
        StoreError when the system does not let us read.
        """
        damaged: dict[Path, BodyError] = {}
        for candidate in (self.path, self._beside(".bak")):
            data = _content(candidate)
            if not data:
                # RocketMQ leaves an empty file behind when it is killed while it writes.
                continue
            try:
                offsets = _decode(data)
            except BodyError as error:
                damaged[candidate] = error
                continue
            if damaged:
                _log.error("%s is damaged (%s); %s is used", self.path, damaged[self.path], candidate.name)
            return offsets
        if not damaged:
            return {}
        what = "; ".join(f"{candidate} is damaged ({error})" for candidate, error in damaged.items())
        raise CorruptRecord(
            f"{what}; there is no other copy. Put a good copy in its place, or remove {self.path} and its "
            ".bak: then the consumer begins as a new one"
        )

    def save(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Let the file say these offsets; queues that are not named keep what it said of them.

        Raises CorruptRecord when the file is damaged beyond its `.bak`, and StoreError when the system does
        not let us write.
        """
        with self._turn:
            self._save({**self.load(), **offsets})

    def _save(self, merged: Mapping[MessageQueue, int]) -> None:
        data = dumps({_TABLE: {queue: merged[queue] for queue in sorted(merged)}}, pretty=True)
        temporary = self._beside(".tmp")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(FileNotFoundError):
                if self.path.stat().st_size and self._reads():
                    self.path.replace(self._beside(".bak"))
            temporary.replace(self.path)
        except OSError as error:
            raise StoreError(f"offsets could not be written to {self.path}: {error}") from error

    def _reads(self) -> bool:
        """Return whether the file may take the place of `.bak`; a damaged one must not."""
        try:
            _decode(self.path.read_bytes())
        except BodyError:
            return False
        return True

    def _beside(self, suffix: str) -> Path:
        return self.path.with_name(self.path.name + suffix)


class LocalOffsets:
    """An offsets file and what it says, for all threads of one client."""

    def __init__(self, file: BroadcastOffsets) -> None:
        self._file = file
        # One lock for each process: at a fork a thread may hold the parent's, and here nobody would let go.
        self._locks: dict[int, threading.Lock] = {}
        self._known: dict[MessageQueue, int] | None = None

    def load(self) -> None:
        """Read the file, once; raises what `BroadcastOffsets.load` does."""
        with self._lock():
            if self._known is None:
                self._known = self._file.load()

    def get(self, queue: MessageQueue) -> int | None:
        """Return the offset to read next in a queue, by its name on the wire; None when it was never read."""
        assert self._known is not None, "the file is read at the start"
        return self._known.get(queue)

    def save(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Write offsets, unless the file says so already. Raises what `BroadcastOffsets.save` does."""
        assert self._known is not None, "the file is read at the start"
        with self._lock():
            changed = {queue: at for queue, at in offsets.items() if self._known.get(queue) != at}
            if changed:
                self._file.save(changed)
                self._known.update(changed)

    def _lock(self) -> threading.Lock:
        return self._locks.setdefault(os.getpid(), threading.Lock())


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"offsets could not be read from {path}: {error}") from error


def _decode(data: bytes) -> dict[MessageQueue, int]:
    value = loads(data)
    table = value.get(_TABLE) if isinstance(value, dict) else None
    if not isinstance(table, dict):
        raise BodyError(f"{_TABLE} is missing")
    return {_queue(key): _offset(offset) for key, offset in table.items()}


def _queue(key: Any) -> MessageQueue:
    fields = key.as_dict() if isinstance(key, ObjectKey) else {}
    topic, broker_name, queue_id = fields.get("topic"), fields.get("brokerName"), fields.get("queueId")
    if not isinstance(topic, str) or not isinstance(broker_name, str) or not isinstance(queue_id, int):
        raise BodyError(f"{key!r} is no queue")
    return MessageQueue(topic, broker_name, queue_id)


def _offset(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise BodyError(f"{value!r} is no offset")
    return value
