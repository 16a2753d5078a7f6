"""Pulls without a Python object for each: the compiled kernel between a link and the log.

A pull that `handlers/pull.py` let through is *learnt*: the kernel answers the next ones that differ in their
offsets only, until a topic, a group or a subscription changes. What finds nothing takes the long way, and is
held there.
"""

from typing import TYPE_CHECKING

from pyromq.broker.answer_parts import binary_parts, json_parts
from pyromq.broker.clients import Consumers
from pyromq.broker.groups import GroupTable
from pyromq.broker.offsets import OffsetTable
from pyromq.broker.topics import TopicTable
from pyromq.codes import VERSION, Language
from pyromq.config.settings import StoreSettings
from pyromq.net.link import Link
from pyromq.store.reading import GetStatus, WantsTags
from pyromq.store.store import MessageStore
from pyromq.wire.command import CommandReader
from pyromq.wire.headers.pull import PullMessage

if TYPE_CHECKING:
    from pyromq._kernel.pulls import Pulls


class FastPulls:
    """Offers received bytes to the kernel, and teaches it pulls. Links have it as their shortcut."""

    def __init__(
        self,
        pulls: "Pulls",
        *,
        store: MessageStore,
        topics: TopicTable,
        groups: GroupTable,
        consumers: Consumers,
        offsets: OffsetTable,
    ) -> None:
        self._pulls = pulls
        self._store = store
        self._topics = topics
        self._groups = groups
        self._consumers = consumers
        self._offsets = offsets
        self._revision = (-1, -1, -1)
        #: Set while which broker is suggested depends on what was read.
        self.is_off = False
        store.on_files_gone = pulls.release

    def __call__(self, link: Link, reader: CommandReader, answer_bytes_max: int) -> bool:
        """Answer the pulls at the front of what was received that find messages; return whether one did."""
        if self.is_off:
            return False
        if self._revision != (self._topics.revision, self._groups.revision, self._consumers.revision):
            self._forget_if_changed()
            return False
        store = self._store
        received, start = reader.pending
        end, frames, commits = self._pulls.answer(
            received,
            start,
            log=store.log,
            disk_position=store.disk_position,
            answer_bytes_max=answer_bytes_max,
        )
        if end == start:
            return False
        reader.skip_to(end)
        for (group, topic, queue_id), offset in commits:
            self._offsets.commit(group, topic, queue_id, offset)
        for frame in frames:
            link.send_frames(frame)
        return True

    def renew(self, pulls: "Pulls") -> None:
        """Go on with limits that changed; all pulls are learnt anew."""
        self._store.on_files_gone = pulls.release
        self._pulls.release()
        self._pulls = pulls

    def take_served(self) -> dict[tuple[str, str, int], tuple[int, int, int]]:
        """Return (messages, bytes, pulls) by group, topic and queue since the last time this was asked."""
        return self._pulls.take_served()

    def learn(self, header: PullMessage, wants: WantsTags | None) -> None:
        """Let the kernel answer the next pulls like one that was let through."""
        self._forget_if_changed()
        codes = None if wants is None else getattr(wants, "__self__", None)
        if wants is not None and not isinstance(codes, frozenset):
            return
        queue = self._store.queue(header.topic, header.queue_id)
        key = _key_of(header)
        if queue is not None and key is not None and header.topic.isascii():
            who = (header.consumer_group, header.topic, header.queue_id)
            reached = self._offsets.pulled.place(*who)
            self._pulls.learn(key, queue, header.topic.encode(), header.queue_id, codes, who, reached)

    def _forget_if_changed(self) -> None:
        revision = (self._topics.revision, self._groups.revision, self._consumers.revision)
        if self._revision != revision:
            self._revision = revision
            self._pulls.forget_all()


def _key_of(header: PullMessage) -> bytes | None:
    """Return what pulls of one kind have in common, as the kernel puts it together; None if it does not."""
    fields = (
        header.consumer_group,
        header.topic,
        str(header.queue_id),
        str(header.sys_flag),
        str(header.sub_version),
        header.subscription or "",
        header.expression_type or "",
    )
    if any("\0" in field for field in fields):
        return None
    return "".join([f"{field}\0" for field in fields]).encode("utf-8", "replace")


def make_pulls(settings: StoreSettings, *, broker_id: int) -> "Pulls":
    """Return the kernel's part, for a broker that always suggests the same broker for the next pull."""
    # Only now: without a compiler there is nothing to import.
    from pyromq._kernel.pulls import Limits, Pulls

    fields = {
        "suggestWhichBrokerId": str(broker_id),
        "nextBeginOffset": None,
        "minOffset": None,
        "maxOffset": None,
    }
    return Pulls(
        Limits(
            bytes_in_memory=settings.max_transfer_bytes_on_message_in_memory,
            count_in_memory=settings.max_transfer_count_on_message_in_memory,
            bytes_on_disk=settings.max_transfer_bytes_on_message_in_disk,
            count_on_disk=settings.max_transfer_count_on_message_in_disk,
            bulk_bytes=settings.max_transfer_bytes_on_bulk_pull,
        ),
        answer_parts=json_parts(fields, remark=str(GetStatus.FOUND)),
        binary_parts=binary_parts(fields),
        language=int(Language.JAVA),
        version=VERSION,
    )
