"""Retention: which files of the log may be removed, and when.

The unit is a file of the log; the newest one is never removed. The oldest are removed

- in the hours of `deleteWhen`, when they are older than `fileReservedTime`;
- at any hour, when they are that old and the disk is fuller than `diskMaxUsedSpaceRatio` (75 %);
- whatever their age, when it is fuller than `diskSpaceCleanForciblyRatio` (85 %);

at most ten in a round; the broker removes them with pauses (broker/durability/file_removal.py). Over
`diskSpaceWarningLevelRatio` (90 %) nothing is written until there is room again.
(DefaultMessageStore.java, CleanCommitLogService.)

A file's age counts from the first message of the file behind it, which is when it was finished. RocketMQ
takes the time at which the file was last modified, which is the same until somebody copies the store.

Before a file is removed, its scheduled messages are stored again at the end of the log, also over 90 %.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyromq.config.settings import StoreSettings
from pyromq.store.commitlog import CommitLog
from pyromq.store.files import Files
from pyromq.store.follower import StoreFile

FILES_PER_ROUND: Final = 10
_HOUR_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class Swept:
    """Files that nothing knows any more, those of the log first; removing them can take long.

    When the process ends before it is done, the next start finds them as the oldest files of the log.
    """

    files: list[StoreFile]
    log_count: int
    through: Files

    def remove(self) -> int:
        """Remove the files from the disk and return how many."""
        for file in self.files:
            self.remove_one(file)
        return len(self.files)

    def remove_one(self, file: StoreFile) -> None:
        """Remove a file from the disk, the older ones first; may be called from another thread."""
        self.through.remove(file.path)
        # One after the other: a power cut must not leave an older file with a hole behind it.
        self.through.sync_folder(file.path.parent)


def count_expired(
    log: CommitLog,
    settings: StoreSettings,
    *,
    safe_position: int,
    disk_ratio: float,
    now_ms: int,
    may_go_before: Callable[[int], int],
    at_any_hour: bool = False,
) -> int:
    """Return how many of the oldest files of the log may go now.

    Files behind the safe position stay. Whoever waits for their sync must not be told that it failed; and
    until the disk has their queue entries, nothing else knows which offsets were given out. `may_go_before`
    is asked with the position at which they end, and says up to where nobody needs them.
    """
    is_forced = (
        settings.clean_file_forcibly_enable and disk_ratio > settings.disk_space_clean_forcibly_ratio / 100
    )
    is_time = at_any_hour or _hour_of(now_ms) in {int(hour) for hour in settings.delete_when.split(";")}
    is_tight = disk_ratio > settings.disk_max_used_space_ratio / 100
    if not (is_forced or is_time or is_tight):
        return 0
    expired_ms = now_ms - settings.file_reserved_time * _HOUR_MS
    count = 0
    for segment in log.segments[:-1][:FILES_PER_ROUND]:
        finished_ms = log.stored_at(segment.end)
        is_old = finished_ms is not None and finished_ms <= expired_ms
        if segment.end > safe_position or not (is_forced or is_old):
            break
        count += 1
    files = log.segments[:count]
    free_before = may_go_before(files[-1].end) if files else 0
    return sum(file.end <= free_before for file in files)


def _hour_of(now_ms: int) -> int:
    return time.localtime(now_ms // 1000).tm_hour
