"""Pulls without a Python object for each: the compiled kernel between a link and the log.

A pull that `handlers/pull_handlers.py` let through is *learnt*: the kernel answers the next ones that differ
in their offsets only, and holds those that find nothing, until a topic, a group, its subscriptions or any
live setting changes. It reads up to the position that readers may have now, commits in the table of offsets,
and suggests the broker that the group's configuration names.

    a queue grows ─► Arrivals.grew ─► the kernel notes it ─► end of the turn: `wake` answers all who wait

What the kernel gives back when it is woken is read for again by `PullHandlers.read_again`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec.structs import replace

from pyromq.broker.delivery.arrivals import Arrivals, Grown
from pyromq.broker.groups.group_room import Groups
from pyromq.broker.live_settings import BrokerLiveSettings
from pyromq.broker.requests.answer_parts import binary_parts, json_parts
from pyromq.broker.topics.topics import TopicTable
from pyromq.clock import Clock
from pyromq.codes import VERSION, Language, RequestCode, ResponseCode, Serializer
from pyromq.config.choices import BrokerRole
from pyromq.config.settings import StoreSettings
from pyromq.net.link import Link
from pyromq.net.routes import Answer, Request
from pyromq.store.consumequeue import ConsumeQueue
from pyromq.store.reading import GetStatus, WantsTags
from pyromq.store.store import MessageStore
from pyromq.wire.command import Command
from pyromq.wire.headers.pull_headers import PullMessage

if TYPE_CHECKING:
    from pyromq._kernel.requests.holds import HeldPull
    from pyromq._kernel.requests.pulls import Pulls
    from pyromq._kernel.requests.reading import Limits

MASTER_ID: Final = 0
#: The kernel compares no longer keys (KEY_BYTES_MAX in pulls.pyx).
KEY_BYTES_MAX: Final = 4_096
#: What a learnt pull takes besides its key, and what all of them may take.
PLAN_BYTES: Final = 640
LEARNT_BYTES_MAX: Final = 64 * 1024 * 1024
#: Behind every position of a log: all of it may be read.
_EVERYTHING: Final = (1 << 63) - 1
_AS_LONG_AS_IT_SAYS: Final = -1
#: What a read can come to, in the order of the kernel's numbers (READ_FOUND … in reading.pxd).
_RESULTS: Final = (
    (ResponseCode.SUCCESS, GetStatus.FOUND),
    (ResponseCode.PULL_RETRY_IMMEDIATELY, GetStatus.NO_MATCHED_MESSAGE),
    (ResponseCode.PULL_NOT_FOUND, GetStatus.OFFSET_OVERFLOW_ONE),
    (ResponseCode.PULL_NOT_FOUND, GetStatus.NO_MESSAGE_IN_QUEUE),
)
#: Answers a request that was let in before.
AnswerAgain = Callable[[Link, Command, Callable[[], Answer]], None]
ReadAgain = Callable[[Request[PullMessage]], Answer]


class FastPulls:
    """Offers received bytes to the kernel, and teaches it pulls. `take` is a shortcut of links.

    `Arrivals` has it for the pulls that the kernel holds.
    """

    def __init__(
        self,
        pulls: "Pulls",
        *,
        store: MessageStore,
        topics: TopicTable,
        groups: Groups,
        arrivals: Arrivals,
        live: BrokerLiveSettings,
        clock: Clock,
    ) -> None:
        self._pulls = pulls
        self._holds = pulls.holds
        self._store = store
        self._log = store.log
        #: As the settings were when pulls were forgotten last.
        self._bytes_in_memory = 0
        self._topics = topics
        self._groups = groups.table
        self._consumers = groups.consumers
        self._offsets = groups.offsets
        self._arrivals = arrivals
        self._live = live
        self._settings = live.now.broker
        self._takes_commits = self._settings.broker_role != BrokerRole.SLAVE
        self._under_way_max = live.now.net.requests_under_way_max
        self._now_ms = clock.now_ms
        self._revision = (-1, -1, -1, -1)
        self._learnt_bytes = 0
        #: What the kernel gives back is answered by these.
        self.answer_again: AnswerAgain | None = None
        self.read_again: ReadAgain | None = None
        #: Told when pulls were woken, and for how many milliseconds the oldest of them was held.
        self.on_woken: Callable[[int], None] = lambda _held_ms: None
        store.on_files_gone = pulls.reader.release
        arrivals.compiled = self

    def take(self, links: list[Link]) -> bool:
        """Answer or hold the pulls at the front of what links received; return whether there was one."""
        arrivals, settings = self._arrivals, self._settings
        if self._forget_if_changed() or arrivals.is_over:
            return False
        log, readable = self._log, self._store.readable_position
        count, changed, commits = self._pulls.answer(
            links,
            log,
            readable=_EVERYTHING if readable is None else readable,
            disk_position=log.end - self._bytes_in_memory,
            now_ms=self._now_ms(),
            hold_room=arrivals.room(settings.held_pulls_max),
            hold_ms=(
                _AS_LONG_AS_IT_SAYS if settings.long_polling_enable else settings.short_polling_time_mills
            ),
            under_way_max=self._under_way_max,
        )
        if changed:
            self._offsets.changed(changed)
        for plan, offset in commits:
            group, topic, queue_id = plan.who
            self._offsets.commit(group, topic, queue_id, offset)
            plan.offsets = self._offsets.kept(group, topic)
        return count > 0

    # The pulls that are held

    @property
    def held_count(self) -> int:
        """The number of pulls that the kernel holds."""
        return self._holds.count

    def grew(self, grown: Grown) -> tuple[Sequence[ConsumeQueue], bool]:
        """Note queues that got messages; return those without a held pull, and whether there are others."""
        holds = self._holds
        return holds.grew(list(grown)), holds.has_grown

    def wake(self) -> None:
        """Answer the pulls that want what came, in one call."""
        if self._holds.has_grown:
            self._wake_by(self._holds.wake)

    def sweep(self) -> None:
        """Answer the pulls whose time is up or whose queue has grown."""
        if self._holds.count:
            self._wake_by(self._holds.sweep)

    def wake_all(self) -> None:
        """Answer every pull, for the broker stops."""
        for pull in self._holds.take_all():
            self._answer_again(pull)

    def _wake_by(self, wake: Callable[..., tuple[int, int, "Sequence[HeldPull]"]]) -> None:
        self._forget_if_changed()
        log, readable = self._log, self._store.readable_position
        count, held_ms, left = wake(
            self._pulls.reader,
            log,
            readable=_EVERYTHING if readable is None else readable,
            disk_position=log.end - self._bytes_in_memory,
            now_ms=self._now_ms(),
        )
        for pull in left:
            self._answer_again(pull)
        if count:
            self.on_woken(held_ms)

    def _answer_again(self, pull: "HeldPull") -> None:
        """Have Python read for a pull that was held, and answer it."""
        assert self.answer_again is not None
        assert self.read_again is not None
        link = cast(Link, pull.inlet)
        header: PullMessage = replace(
            pull.header,
            queue_offset=pull.offset,
            max_msg_nums=pull.count_max,
            max_msg_bytes=pull.bytes_max,
        )
        serializer = Serializer.JSON if pull.is_json else Serializer.ROCKETMQ
        command = Command(RequestCode.PULL_MESSAGE, opaque=pull.opaque, serializer=serializer)
        self.answer_again(link, command, partial(self.read_again, Request(command, header, link)))

    # What is learnt

    def take_served(self) -> dict[tuple[str, str, int], tuple[int, int, int]]:
        """Return (messages, bytes, pulls) by group, topic and queue since the last time this was asked."""
        return self._pulls.take_served()

    def take_missed(self) -> int:
        """Return how many pulls found nothing; to be asked behind `take_served`."""
        return self._pulls.take_missed()

    def learn(self, header: PullMessage, wants: WantsTags | None) -> None:
        """Let the kernel answer the next pulls like one that was let through."""
        # Only now: without a compiler there is nothing to import.
        from pyromq._kernel.requests.reading import PullPlan

        self._forget_if_changed()
        codes: Any = None if wants is None else getattr(wants, "__self__", None)
        if wants is not None and not isinstance(codes, frozenset):
            return
        group, topic = header.consumer_group, header.topic
        queue, config = self._store.queue(topic, header.queue_id), self._groups.find(group)
        key = _key_of(header)
        if queue is None or config is None or key is None or not topic.isascii():
            return
        self._make_room(len(key) + 8 * len(codes or ()))
        suggests = self._settings.slave_read_enable
        plan = PullPlan(
            queue,
            header=header,
            codes=codes,
            broker_ids=(
                (config.broker_id, config.which_broker_when_consume_slowly)
                if suggests
                else (MASTER_ID, MASTER_ID)
            ),
            offsets=self._offsets.kept(group, topic) if self._takes_commits else None,
            name=self._offsets.name_of(group, topic) if self._takes_commits else None,
            reached=self._offsets.pulled.place(group, topic, header.queue_id),
            revision=self._consumers.revision(group),
        )
        self._pulls.learn(key, plan)

    def _forget_if_changed(self) -> bool:
        """Forget all pulls when something changed that they were let through by; return whether it did."""
        revision = (
            self._topics.revision,
            self._groups.revision,
            self._offsets.revision,
            self._live.revision,
        )
        if self._revision == revision:
            return False
        self._revision = revision
        self._learnt_bytes = 0
        self._pulls.reader.limits = make_limits(self._live.now.store)
        self._bytes_in_memory = self._store.bytes_in_memory()
        self._pulls.forget_all()
        return True

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


def make_limits(settings: StoreSettings) -> "Limits":
    """Return the limits of answers, as the settings are now."""
    from pyromq._kernel.requests.reading import Limits

    return Limits(
        bytes_in_memory=settings.max_transfer_bytes_on_message_in_memory,
        count_in_memory=settings.max_transfer_count_on_message_in_memory,
        bytes_on_disk=settings.max_transfer_bytes_on_message_in_disk,
        count_on_disk=settings.max_transfer_count_on_message_in_disk,
        bulk_bytes=settings.max_transfer_bytes_on_bulk_pull,
    )


def make_pulls(settings: StoreSettings) -> "Pulls":
    """Return the kernel's part."""
    from pyromq._kernel.requests.pulls import Pulls
    from pyromq._kernel.requests.reading import PullReader

    fields = dict.fromkeys(("suggestWhichBrokerId", "nextBeginOffset", "minOffset", "maxOffset"))
    answers = [
        (int(code), str(status).encode(), json_parts(fields, str(status), code)) for code, status in _RESULTS
    ]
    reader = PullReader(
        make_limits(settings),
        answers=answers,
        binary_parts=binary_parts(fields),
        language=int(Language.JAVA),
        version=VERSION,
    )
    return Pulls(reader)
