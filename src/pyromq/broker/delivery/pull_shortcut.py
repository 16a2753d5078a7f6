"""Pulls without a Python object for each: the compiled kernel between a link and the log.

A pull that `handlers/pull_handlers.py` let through is *learnt*: the kernel answers the next ones that differ
in their offsets only, until a topic, a group, a subscription or any live setting changes. What finds nothing
takes the long way, and is held there.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pyromq.broker.groups.group_room import Groups
from pyromq.broker.live_settings import BrokerLiveSettings
from pyromq.broker.requests.answer_parts import binary_parts, json_parts
from pyromq.broker.topics.topics import TopicTable
from pyromq.codes import VERSION, Language
from pyromq.config.settings import StoreSettings
from pyromq.net.link import Link
from pyromq.store.reading import GetStatus, WantsTags
from pyromq.store.store import MessageStore
from pyromq.wire.headers.pull_headers import PullMessage

if TYPE_CHECKING:
    from pyromq._kernel.requests.pulls import Pulls
    from pyromq._kernel.requests.signatures import Signatures


#: The kernel compares no longer keys (KEY_BYTES_MAX in pulls.pyx).
KEY_BYTES_MAX: Final = 4_096
#: What a learnt pull takes besides its key, and what all of them may take.
PLAN_BYTES: Final = 256
LEARNT_BYTES_MAX: Final = 64 * 1024 * 1024


class FastPulls:
    """Offers received bytes to the kernel, and teaches it pulls. Links have it as their shortcut.

    `make` makes the kernel's part with the settings of now, which it keeps a copy of.
    """

    def __init__(
        self,
        make: Callable[[], "Pulls"],
        *,
        store: MessageStore,
        topics: TopicTable,
        groups: Groups,
        live: BrokerLiveSettings,
    ) -> None:
        self._make = make
        self._pulls = make()
        self._store = store
        self._topics = topics
        self._groups = groups.table
        self._consumers = groups.consumers
        self._offsets = groups.offsets
        self._live = live
        self._settings = live.now.broker
        self._live_revision = live.revision
        self._revision = (-1, -1, -1)
        self._learnt_bytes = 0
        #: Called before the kernel's part is replaced, and with it what it counted.
        self.before_renewal: Callable[[], None] = lambda: None
        store.on_files_gone = self._pulls.release

    def __call__(self, links: list[Link]) -> bool:
        """Answer the pulls at the front of what links received that find messages; return whether one did."""
        # While slaves are suggested, which broker is depends on what was read.
        if self._settings.slave_read_enable:
            return False
        if self._forget_if_changed():
            return False
        store = self._store
        readable = store.readable_position
        if readable is not None and readable < store.max_position:
            # The kernel reads up to the end of the log.
            return False
        count, commits = self._pulls.answer(links, log=store.log, disk_position=store.disk_position)
        for (group, topic, queue_id), offset in commits:
            self._offsets.commit(group, topic, queue_id, offset)
        return count > 0

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
            self._make_room(len(key) + 8 * len(codes or ()))
            who = (header.consumer_group, header.topic, header.queue_id)
            reached = self._offsets.pulled.place(*who)
            self._pulls.learn(key, queue, header.topic.encode(), header.queue_id, codes, who, reached)

    def _forget_if_changed(self) -> bool:
        """Forget all pulls when something changed that they were let through by; return whether it did."""
        if self._live_revision != self._live.revision:
            self._live_revision = self._live.revision
            self._renew()
        revision = (self._topics.revision, self._groups.revision, self._consumers.revision)
        if self._revision == revision:
            return False
        self._revision = revision
        self._learnt_bytes = 0
        self._pulls.forget_all()
        return True

    def _renew(self) -> None:
        """Go on with limits that changed."""
        self.before_renewal()
        pulls = self._make()
        self._store.on_files_gone = pulls.release
        self._pulls.release()
        self._pulls = pulls
        self._learnt_bytes = 0

    def _make_room(self, size: int) -> None:
        """Forget all pulls when they take too much: each that a client varies is another one."""
        self._learnt_bytes += size + PLAN_BYTES
        if self._learnt_bytes > LEARNT_BYTES_MAX:
            self._learnt_bytes = size + PLAN_BYTES
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
    key = "".join([f"{field}\0" for field in fields]).encode("utf-8", "replace")
    return key if len(key) <= KEY_BYTES_MAX else None


def make_pulls(settings: StoreSettings, *, broker_id: int, signatures: "Signatures | None" = None) -> "Pulls":
    """Return the kernel's part, for a broker that always suggests the same broker for the next pull."""
    # Only now: without a compiler there is nothing to import.
    from pyromq._kernel.requests.pulls import Limits, Pulls

    fields = {
        "suggestWhichBrokerId": str(broker_id),
        "nextBeginOffset": None,
        "minOffset": None,
        "maxOffset": None,
    }
    pulls = Pulls(
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
    pulls.guard(signatures)
    return pulls
