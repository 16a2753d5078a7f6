"""The progress of each group in each queue: `consumerOffset.json`.

    {"offsetTable":{"topic@group":{0:12,1:3}}}

Members commit every few seconds and with their pulls; the file follows every five seconds and at a stop.
What a crash loses of it, members read again: at least once is the promise. So after a crash no group is past
the end of a queue, and the file is written behind a sync of the log: a group may have passed a message that
was sent back, or popped and stored again. When the log cannot be synced, the file is written all the same:
who sent a message back was told how safe that is. But not where groups pop: a second delivery has no witness.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path

from pyromq.broker.delivery.pulled import PulledOffsets
from pyromq.broker.groups.popping import PoppedSoFar, PopsQueues, popped_so_far
from pyromq.broker.json_table import JsonTable, legal
from pyromq.codes import ResponseCode
from pyromq.errors import PyroError, ServerFailed
from pyromq.name_rules import why_no_stored_group, why_no_stored_topic
from pyromq.store.files import Files
from pyromq.wire.bodies.offset_bodies import TABLE_BUCKETS, decode_group_offsets, encode_group_offsets
from pyromq.wire.bodies.table_text import TableText

log = logging.getLogger(__name__)

SEPARATOR = "@"
#: Progress is kept for this many queues of a topic; their numbers come from clients.
QUEUES_MAX = 65_536
#: `topic@group` of all of it; 16 MiB fit an answer.
KEYS_CHARACTERS_MAX = 8 * 1024 * 1024


class OffsetTable:
    """Progress by topic, group and queue."""

    def __init__(self, path: Path, *, files: Files | None = None) -> None:
        self._progress: dict[str, dict[int, int]] = {}
        #: How long its keys are together.
        self._characters = 0
        #: What was pulled, committed or not; it is in no file.
        self.pulled = PulledOffsets()
        #: Tells what is popped; nobody does before a broker is made.
        self.pops: PopsQueues | None = None
        #: Raised when offsets leave the table: whoever keeps them (`kept`) lets them go.
        self.revision = 0
        self._text = TableText(TABLE_BUCKETS)
        self._file = JsonTable(path, lambda: self.encode(pretty=True), files=files)

    def load(self) -> None:
        """Read the file."""
        loaded = self._file.load(decode_group_offsets, field="offsetTable") or {}
        self._progress = self._file.sift(loaded, _why_no_key)
        self._characters = sum(map(len, self._progress))
        for key in self._progress:
            self._text.changed(key)

    def follow_log(self, sync_log: Callable[[], Awaitable[None]]) -> None:
        """Write the file behind a sync of the log, from now on."""

        async def sync_if_it_can() -> None:
            try:
                await sync_log()
            except PyroError:
                if self.pops is not None and self.pops.has_popped:
                    raise

        self._file.sync_log = sync_if_it_can

    def keep_within(self, end_of: Callable[[str, int], int]) -> None:
        """Bring progress back that is past a queue's end, which `end_of` tells by topic and queue id.

        A power cut under asynchronous flush takes messages that were read already. The next ones get their
        offsets, and a group that stayed past the end would never see them.
        """
        for key, offsets in self._progress.items():
            topic, _, group = key.partition(SEPARATOR)
            for queue_id, offset in offsets.items():
                end = end_of(topic, queue_id)
                if offset > end:
                    log.warning(
                        "group %s was at %d in %s queue %d, which ends at %d: it goes on there",
                        group,
                        offset,
                        topic,
                        queue_id,
                        end,
                    )
                    offsets[queue_id] = end
                    self._text.changed(key)
                    self._file.changed_unsaved()

    def check_commit(self, group: str, topic: str, queue_id: int) -> None:
        """Raise ServerFailed when a client's commit would make the table grow without end.

        RocketMQ takes commits for whatever group, topic and queue a client names, and so do we; but the table
        is a file, and an answer to slaves, as a whole.
        """
        if not 0 <= queue_id < QUEUES_MAX:
            raise ServerFailed(ResponseCode.SYSTEM_ERROR, f"queueId[{queue_id}] is illegal")
        key = f"{topic}{SEPARATOR}{group}"
        if key not in self._progress and self._characters > KEYS_CHARACTERS_MAX:
            raise ServerFailed(
                ResponseCode.SYSTEM_ERROR,
                f"there is progress for {len(self._progress)} groups in topics, as much as a table may hold; "
                "delete groups that nobody uses",
            )

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Set the offset that the group reads next; going back is allowed, and logged."""
        key = f"{topic}{SEPARATOR}{group}"
        offsets = self._of(key)
        before = offsets.get(queue_id)
        if before == offset:
            return
        if before is not None and offset < before:
            log.warning("group %s goes back in %s queue %d: %d to %d", group, topic, queue_id, before, offset)
            # What was pulled behind it will be pulled again.
            self.pulled.note(group, topic, queue_id, offset)
        offsets[queue_id] = offset
        self._text.changed(key)
        self._file.changed_unsaved()

    def follow(self, master: Mapping[str, Mapping[int, int]]) -> None:
        """Take over the progress that a master has, by `topic@group`; groups that it does not have stay."""
        for key, theirs in legal(master, _why_no_key).items():
            if self._progress.get(key) != theirs:
                self._set(key, theirs)

    def remove_topic(self, topic: str) -> None:
        """Forget the progress of all groups in a topic."""
        self._remove([f"{topic}{SEPARATOR}{group}" for group in self.groups_of(topic)])
        self.pulled.remove_topic(topic)

    def remove_group(self, group: str) -> None:
        """Forget all progress of a group."""
        self._remove([f"{topic}{SEPARATOR}{group}" for topic in self.topics_of(group)])
        self.pulled.remove_group(group)

    def forget_on_disk(self, group: str) -> None:
        """Read the table, and forget all progress of a group on the disk; to be called before a start."""
        self.load()
        if self.topics_of(group):
            self.remove_group(group)
            self._file.replace_both()

    def _of(self, key: str) -> dict[int, int]:
        offsets = self._progress.get(key)
        if offsets is None:
            offsets = self._progress[key] = {}
            self._characters += len(key)
        return offsets

    def _set(self, key: str, theirs: Mapping[int, int]) -> None:
        """Let the offsets be these; whoever keeps them sees that."""
        offsets, new = self._of(key), dict(theirs)
        offsets.clear()
        offsets.update(new)
        self.changed((key,))

    def _remove(self, keys: list[str]) -> None:
        for key in keys:
            self.revision += 1
            del self._progress[key]
            self._characters -= len(key)
            self._text.removed(key)
            self._file.changed_unsaved()

    def clone(self, source: str, target: str, topic: str) -> None:
        """Let a group be where another is in a topic, if that has progress there."""
        offsets = self._progress.get(f"{topic}{SEPARATOR}{source}")
        if offsets is not None:
            self._set(f"{topic}{SEPARATOR}{target}", offsets)

    def kept(self, group: str, topic: str) -> dict[int, int] | None:
        """Return the offsets of a group in a topic to keep and raise, by queue id; None when there are none.

        They are the table's own until `revision` is another. Whoever changes them tells by `changed`.
        """
        return self._progress.get(self.name_of(group, topic))

    def name_of(self, group: str, topic: str) -> str:
        """Return the name that the table has for the offsets of a group in a topic."""
        return f"{topic}{SEPARATOR}{group}"

    def changed(self, names: Iterable[str]) -> None:
        """Note that offsets are others, by their names in the table."""
        for name in names:
            self._text.changed(name)
        self._file.changed_unsaved()

    def progress_in(self, group: str, topic: str) -> Mapping[int, int]:
        """Return the offsets that a group reads next in a topic, by queue id."""
        return self._progress.get(f"{topic}{SEPARATOR}{group}", {})

    def progress(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the offset that the group reads next, or None when it never committed one."""
        offsets = self._progress.get(f"{topic}{SEPARATOR}{group}")
        return None if offsets is None else offsets.get(queue_id)

    def popped(self, group: str, topic: str, queue_id: int) -> PoppedSoFar | None:
        """Return how far a group popped a queue; None if it does not pop it."""
        if self.pops is None:
            return None
        return popped_so_far(self.pops, group, topic, queue_id, self.progress(group, topic, queue_id) or 0)

    def topics_of(self, group: str) -> list[str]:
        """Return the topics in which the group has progress."""
        return [topic for topic, of_group in self.pairs() if of_group == group]

    def topics_by_group(self) -> dict[str, list[str]]:
        """Return the topics in which each group has progress: `topics_of` for all, at the price of one."""
        found: dict[str, list[str]] = {}
        for topic, group in self.pairs():
            found.setdefault(group, []).append(topic)
        return found

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups that have progress in the topic."""
        return [group for of_topic, group in self.pairs() if of_topic == topic]

    async def save(self) -> None:
        """Bring all progress to the disk."""
        await self._file.save()

    def encode(self, *, pretty: bool = False) -> bytes:
        """Return the table as RocketMQ writes it."""
        return encode_group_offsets(self._progress, pretty=pretty, text=self._text)

    def pairs(self) -> list[tuple[str, str]]:
        """Return the topics and groups that there is progress for."""
        parts = (key.split(SEPARATOR) for key in self._progress)
        return [(part[0], part[1]) for part in parts if len(part) == 2]


def _why_no_key(key: str, _offsets: object) -> str | None:
    """Return what is wrong with `topic@group`."""
    topic, separator, group = key.partition(SEPARATOR)
    return why_no_stored_topic(topic) or (why_no_stored_group(group) if separator else None)
