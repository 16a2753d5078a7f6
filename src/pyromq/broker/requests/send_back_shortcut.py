"""Messages that are sent back without a Python object for each: what the kernel is told of groups and levels.

The kernel plans send-backs with the sends of the same turn (`send_shortcut.py`). A group is learnt when
Python stored one of its messages for a retry, and everything is on disk that was made for it. All groups are
forgotten when a group, a topic or a live setting changes.
"""

from collections.abc import Callable
from random import randrange
from typing import TYPE_CHECKING

from pyromq import system_names
from pyromq.broker.groups.groups import GroupTable
from pyromq.broker.kinds.dead_letter_queue import VERSION_MAX_RECONSUME_TIMES
from pyromq.broker.requests.answer_parts import binary_parts, json_parts
from pyromq.broker.requests.handlers.retry_handlers import FIRST_LEVEL
from pyromq.broker.requests.send_shortcut import kernel_diversion
from pyromq.broker.topics.intake import PlainDiversion
from pyromq.codes import VERSION, Language, RequestCode
from pyromq.store.commitlog import CommitLog
from pyromq.store.store import MessageStore
from pyromq.wire import properties as names
from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig
from pyromq.wire.record import TOPIC_BYTES_MAX_V1

if TYPE_CHECKING:
    from pyromq._kernel.requests.send_backs import SendBacks
    from pyromq._kernel.storage.diversions import Diversion


class FastSendBacks:
    """Teaches the kernel groups, and the queues of delay levels."""

    def __init__(self, store: MessageStore, groups: GroupTable) -> None:
        self._store = store
        self._groups = groups
        self._revision = groups.revision
        self._kernel: SendBacks | None = None
        self._delayed: Diversion | None = None

    def attach(self, kernel: "SendBacks", delayed: "Diversion") -> None:
        """Teach these from now on."""
        self._kernel, self._delayed = kernel, delayed

    def look(self) -> CommitLog | None:
        """Return the log, or None when what was learnt holds no more."""
        if self._revision == self._groups.revision:
            return self._store.log
        self._revision = self._groups.revision
        if self._kernel is not None:
            self._kernel.forget_all()
        return None

    def learn(self, config: SubscriptionGroupConfig, retry_topic: str, level: int) -> None:
        """Let the kernel have what a group sends back next; its last message waits in a level now."""
        self.look()
        group, queue = config.group_name, self._store.queue(system_names.SCHEDULE, level - 1)
        if self._kernel is None or self._delayed is None or queue is None:
            return
        self._delayed.learn(level - 1, queue)
        if group.isascii() and retry_topic.isascii() and len(retry_topic) <= TOPIC_BYTES_MAX_V1:
            count = config.retry_queue_nums
            self._kernel.learn_group(
                group.encode(),
                retry_topic.encode(),
                queue_count=count,
                first_queue=randrange(count),
                times_max=config.retry_max_times,
            )


def fast_send_backs(
    store: MessageStore, groups: GroupTable, plain: PlainDiversion, diverting: tuple[str, ...]
) -> "tuple[FastSendBacks, SendBacks]":
    """Return what teaches, and the kernel's part of a broker."""
    fast, delayed = FastSendBacks(store, groups), kernel_diversion(plain, "")
    kernel = make_send_backs(
        fast.look, delayed, diverting=diverting, body_bytes_max=store.settings.max_message_size
    )
    fast.attach(kernel, delayed)
    return fast, kernel


def make_send_backs(
    look: Callable[[], CommitLog | None],
    delayed: "Diversion",
    *,
    diverting: tuple[str, ...],
    body_bytes_max: int,
) -> "SendBacks":
    """Return the kernel's part; a message with a property that could divert it elsewhere is Python's."""
    # Only now: without a compiler there is nothing to import.
    from pyromq._kernel.requests.send_backs import SendBacks

    # A message that was sent back is no half, whatever it says.
    harmless = (names.DELAY, names.TRANSACTION_PREPARED)
    return SendBacks(
        look,
        delayed,
        first_level=FIRST_LEVEL,
        excludes=tuple(name.encode() for name in diverting if name not in harmless),
        max_times_from=VERSION_MAX_RECONSUME_TIMES,
        body_bytes_max=body_bytes_max,
        code=RequestCode.CONSUMER_SEND_MSG_BACK,
        answer_parts=json_parts(None),
        binary_parts=binary_parts({}),
        language=int(Language.JAVA),
        version=VERSION,
    )
