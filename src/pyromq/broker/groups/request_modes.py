"""The modes in which groups consume topics, as operators set them: `messageRequestMode.json`.

{"messageRequestModeMap":{topic:{group:{"consumerGroup":…,"mode":"POP","popShareQueueNum":0,"topic":…}}}}
"""

from pathlib import Path
from typing import Final

from pyromq.broker.json_table import JsonTable
from pyromq.codes import ResponseCode
from pyromq.errors import ServerFailed
from pyromq.name_rules import why_no_stored_group, why_no_stored_topic
from pyromq.store.files import Files
from pyromq.wire.bodies.request_mode_bodies import (
    RequestModeSetting,
    decode_request_modes,
    encode_request_modes,
)

#: Entries of the table: it is told and answered as a whole.
ENTRIES_MAX: Final = 100_000


class RequestModes:
    """The settings by topic and group."""

    def __init__(self, path: Path, *, files: Files | None = None) -> None:
        self._modes: dict[str, dict[str, RequestModeSetting]] = {}
        self._file = JsonTable(path, lambda: self.encode(pretty=True), files=files)

    def load(self) -> None:
        """Read the file; raise CorruptRecord when it does not read."""
        loaded = self._file.load(decode_request_modes, field="messageRequestModeMap")
        if loaded is not None:
            self._modes = self._file.sift(loaded, _why_not)

    def get(self, topic: str, group: str) -> RequestModeSetting | None:
        """Return what was said of a topic and a group, None for nothing."""
        return self._modes.get(topic, {}).get(group)

    def put(self, setting: RequestModeSetting) -> None:
        """Note what was said; `save` says when it is on disk. Raises ServerFailed when the table is full."""
        groups = self._modes.get(setting.topic, {})
        if setting.consumer_group not in groups and self.count >= ENTRIES_MAX:
            raise ServerFailed(
                ResponseCode.SYSTEM_ERROR,
                f"the modes of {ENTRIES_MAX} topics and groups are known, and that is the limit; delete some",
            )
        self._modes.setdefault(setting.topic, {})[setting.consumer_group] = setting
        self._file.changed()

    @property
    def count(self) -> int:
        """The number of entries."""
        return sum(map(len, self._modes.values()))

    def forget_topic(self, topic: str) -> None:
        """Forget what was said of a topic that is deleted."""
        if self._modes.pop(topic, None) is not None:
            self._file.changed()

    def forget_group(self, group: str) -> None:
        """Forget what was said of a group that is deleted."""
        for topic in [topic for topic, groups in self._modes.items() if group in groups]:
            del self._modes[topic][group]
            if not self._modes[topic]:
                del self._modes[topic]
            self._file.changed()

    def follow(self, master: bytes) -> None:
        """Be a master's table from now on; saved as any change is. Raises BodyError if it does not read."""
        if master != self.encode():
            table = decode_request_modes(master)
            self._modes = {topic: groups for topic, groups in table.items() if not _why_not(topic, groups)}
            self._file.changed()

    async def save(self) -> None:
        """Return when all changes are on disk; raise StoreError when they cannot be written."""
        await self._file.save()

    def encode(self, *, pretty: bool = False) -> bytes:
        """Return the table as RocketMQ writes it."""
        return encode_request_modes(self._modes, pretty=pretty)


def _why_not(topic: str, groups: dict[str, RequestModeSetting]) -> str | None:
    """Return why a table may not have the settings of a topic."""
    faults = (fault for group in groups if (fault := why_no_stored_group(group)) is not None)
    return why_no_stored_topic(topic) or next(faults, None)
