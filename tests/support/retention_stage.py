"""A broker whose log has many small files, on a clock and a disk that tests move."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from kinds_stage import ManualStage, Peer, running_stage
from staged_files import StagedFiles

from pyromq.codes import RequestCode
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.waiting import aeventually

LOG_FILE_BYTES = 8192
#: This many messages of 1000 bytes fill one file.
MESSAGES_PER_FILE = 6
HOUR_MS = 3_600_000
LOOK_MS = 10_000


def local_ms(hour: int, minute: int = 0) -> int:
    """Return a time of the day of the machine's own zone, on a day without a change of the clocks."""
    return int(time.mktime((2023, 11, 15, hour, minute, 0, 0, 0, -1))) * 1000


class RetentionStage:
    """A broker with messages in the queue 0 of «orders»; message 6 × N is the first of log file N."""

    def __init__(self, stage: ManualStage, files: StagedFiles) -> None:
        self.stage = stage
        self.files = files
        self.clock = stage.clock
        self.client: Peer = stage.connect()

    async def fill(self, file_count: int, topic: str = "orders") -> None:
        """Send until the log has so many files, and bring all to the disk by a restart."""
        while len(self.log_files()) < file_count:
            answer = await self.client.send(topic, b"x" * 1000, properties={"KEYS": "key"})
            assert answer.code == 0, answer.remark
        await self.restart()

    async def restart(self) -> None:
        """Stop the broker in order and start it again."""
        await self.stage.restart()
        self.client = self.stage.connect()

    def log_files(self) -> list[int]:
        """Return the numbers of the log's files."""
        return self.numbers("commitlog", LOG_FILE_BYTES)

    def numbers(self, folder: str, size: int) -> list[int]:
        """Return the numbers of the files of one folder of the store."""
        return [int(path.name) // size for path in sorted((self.stage.folder / folder).iterdir())]

    async def look(self, *, after_ms: int = LOOK_MS) -> int:
        """Let time pass until the broker looks for old files; return the oldest offset that is left.

        Offsets move in the turn in which it looks; the files are removed soon after, by a thread.
        """
        looks = self.files.disk_looks
        self.clock.advance(after_ms)
        await aeventually(lambda: self.files.disk_looks > looks, what="the broker looks at its disk")
        return await self.min_offset()

    async def min_offset(self, topic: str = "orders") -> int:
        """Return the offset of the oldest message."""
        answer = await self.client.request(RequestCode.GET_MIN_OFFSET, {"topic": topic, "queueId": 0})
        return int((answer.ext or {})["offset"])

    async def max_offset(self, topic: str = "orders") -> int:
        """Return the offset of the next message."""
        answer = await self.client.request(RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": 0})
        return int((answer.ext or {})["offset"])


@asynccontextmanager
async def retention_stage(
    folder: Path, *, now_ms: int | None = None, files: StagedFiles | None = None, **settings: object
) -> AsyncIterator[RetentionStage]:
    """Run a broker with small files that go without a pause; it is noon unless said otherwise."""
    files = files or StagedFiles()
    small: dict[str, object] = {
        "delete_commit_log_files_interval": 0,
        "delete_consume_queue_files_interval": 0,
        "mapped_file_size_commit_log": LOG_FILE_BYTES,
        "mapped_file_size_consume_queue": 20 * 10,
        "max_hash_slot_num": 10,
        "max_index_num": 20,
    }
    clock = ManualClock(local_ms(12) if now_ms is None else now_ms)
    async with running_stage(folder, clock=clock, files=files, **small | settings) as stage:
        yield RetentionStage(stage, files)
