"""The checkpoint: the small file that tells recovery up to where the store was synced.

    at     bytes
       0     8    stored time of the newest message of the log that was synced
       8     8    stored time of the newest message whose queue entry was synced
      16     8    stored time of the newest message whose index entry was synced
    4048     8    our mark
    4056     8    safe position: all of the log before it, and what the followers made of it, was synced
    4064     8    reach: the end of the newest message in any consume queue then
    4072    16    copies of the first two times
    4088     8    CRC-32 of our bytes before it

4096 bytes, of which RocketMQ 4.9 knows the first 24 and 5.x the first 40. It finds the file of the log to
begin with by the times (StoreCheckpoint.java). Times are a weak guide when clocks step, and a file can be a
gibibyte, so we write down the position too, at the end of the page, which RocketMQ keeps as it is. When the
copies of the times differ from the times, RocketMQ wrote the file since, and the position is only good for
going back to it.

The file is replaced and never changed in place: a torn one would name a position that was never safe.
"""

import struct
from pathlib import Path
from typing import Final
from zlib import crc32

from pyromq.store.files import Files

CHECKPOINT_BYTES: Final = 4096
_TIMES: Final = struct.Struct(">qqq")
_OURS: Final = struct.Struct(">8sqqqq")
_CRC: Final = struct.Struct(">q")
_CRC_AT: Final = CHECKPOINT_BYTES - _CRC.size
_OURS_AT: Final = _CRC_AT - _OURS.size
_MARK: Final = b"pyromq\x00\x02"
#: RocketMQ looks this much further back than the times say.
MARGIN_MS: Final = 3000
#: The reach of followers that are being made again from the log: what there is of them cannot be trusted.
REMAKING: Final = -1
assert _OURS_AT == 4048


class Checkpoint:
    """The values of the checkpoint file, and the file."""

    __slots__ = (
        "_files",
        "_path",
        "index_at_ms",
        "log_at_ms",
        "queues_at_ms",
        "reach",
        "safe_position",
        "stale_position",
    )

    def __init__(self, files: Files, path: Path) -> None:
        self._files = files
        self._path = path
        self.log_at_ms = 0
        self.queues_at_ms = 0
        self.index_at_ms = 0
        #: None when the file is missing, damaged, or was last written by RocketMQ.
        self.safe_position: int | None = None
        #: What was safe before RocketMQ wrote the file: it may have cut the log since, so it is a hint.
        self.stale_position: int | None = None
        self.reach = 0

    def load(self) -> str | None:
        """Read the file, and return what is wrong with it.

        Without one, and with a damaged one, everything is zero, and the whole log is looked at.
        """
        data = self._files.read_all(self._path)
        if data is None:
            return None
        if len(data) < CHECKPOINT_BYTES:
            return f"{self._path} is damaged: it has {len(data)} of {CHECKPOINT_BYTES} bytes"
        ours = data[_OURS_AT:_CRC_AT]
        if any(data[_OURS_AT:]) and (ours[:8], crc32(ours)) != (_MARK, *_CRC.unpack_from(data, _CRC_AT)):
            return f"{self._path} is damaged: bytes {_OURS_AT} to {CHECKPOINT_BYTES} have another checksum"
        self.log_at_ms, self.queues_at_ms, self.index_at_ms = _TIMES.unpack_from(data)
        _, position, reach, *times = _OURS.unpack(ours)
        if any(ours):
            if times == [self.log_at_ms, self.queues_at_ms]:
                self.safe_position, self.reach = position, reach
            else:
                self.stale_position = position
        return None

    def oldest_ms(self) -> int:
        """Return the stored time up to which log and queues are surely on the disk."""
        return max(min(self.log_at_ms, self.queues_at_ms) - MARGIN_MS, 0)

    def save(self) -> None:
        """Replace the file; when this returns the new one survives a power cut."""
        # A sync in another thread may move the first of them meanwhile.
        log_at_ms, queues_at_ms = self.log_at_ms, self.queues_at_ms
        page = bytearray(CHECKPOINT_BYTES)
        _TIMES.pack_into(page, 0, log_at_ms, queues_at_ms, self.index_at_ms)
        if self.safe_position is not None:
            _OURS.pack_into(page, _OURS_AT, _MARK, self.safe_position, self.reach, log_at_ms, queues_at_ms)
            _CRC.pack_into(page, _CRC_AT, crc32(page[_OURS_AT:_CRC_AT]))
        temporary = self._path.with_name(self._path.name + ".tmp")
        file = self._files.open(temporary, CHECKPOINT_BYTES)
        try:
            file.write(page, 0)
            file.sync()
        finally:
            file.close()
        self._files.rename(temporary, self._path)
        self._files.sync_folder(self._path.parent)
