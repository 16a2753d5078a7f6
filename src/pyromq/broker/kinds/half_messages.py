"""Prepared messages and their fate.

The first half of a transaction is a message in RMQ_SYS_TRANS_HALF_TOPIC, where no consumer sees it. When its
producer ends the transaction, an op message in RMQ_SYS_TRANS_OP_HALF_TOPIC says so: its body is the half's
offset. A half without an op message is undecided; those who are too old are asked about, and stored again
behind the others, so that one who never decides does not hold up the queue (`transaction_checks.py`).

    half queue   ░ ░ ░ │ A  B  C  A' │            A' is A, stored again when its producer was asked
                progress ┘
    op queue     0 2 1 │ 4                        B is decided; A is, because A' took its place

Both queues are read by the group CID_RMQ_SYS_TRANS, whose progress in them is where to start after a restart:
before it, every half is decided, given up or stored again. In memory there is one bit for each half behind
it, eight bytes for each op message, and some 250 bytes for each one that was stored again.

A message that is committed, or given up, and its op message are stored with one write, the op message
behind. A crash in the middle of that write can leave the first without the second, but then it is the last
message of the log: `load` stores the op message that is missing before anything else is stored. So a
transaction is decided once, and its message comes once, whatever the moment of a crash.
"""

import logging
from array import array
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from pyromq import system_names
from pyromq.broker.durability.acknowledgement import Durability
from pyromq.broker.groups.offsets import OffsetTable
from pyromq.broker.kinds.half_drafts import DONE_TAG, committed_draft, given_up_draft, op_draft
from pyromq.broker.kinds.kind_follower import KindFollower
from pyromq.broker.kinds.stored_again import QUEUE_ID, divert, draft_of
from pyromq.broker.replication.divergence import last_record_position
from pyromq.broker.topics.intake import Diversion, PlainDiversion
from pyromq.codes import TRANSACTION_MASK, ResponseCode
from pyromq.config.settings import BrokerSettings
from pyromq.errors import NoPermission, StoreError
from pyromq.store.store import Draft, MessageStore
from pyromq.system_names import TRANSACTION_GROUP
from pyromq.wire import properties as names
from pyromq.wire.record import Record

log = logging.getLogger(__name__)

#: The value that says that a message is a half.
_TRUE: Final = "true"
#: The properties of halves that were stored again.
_OF_COPIES: Final = (names.TRANSACTION_CHECK_TIMES, names.TRANSACTION_PREPARED_QUEUE_OFFSET)
#: What all copies of one half have in common: the producer's id of the message, and when it was born.
Identity = str


def half_diversion(settings: BrokerSettings, *, broker_ip: str) -> Diversion:
    """Return what sends the first halves of transactions to the half topic, or refuses them all.

    A half cannot be delayed. One that is retried and delayed is no half: an old client sent it back with the
    properties that it had when it was one.
    """

    def divert_half(draft: Draft, properties: dict[str, str]) -> bool:
        if properties[names.TRANSACTION_PREPARED].lower() != _TRUE:
            return False
        if draft.reconsume_times > 0 and names.DELAY in properties:
            return False
        if settings.reject_transaction_message:
            raise NoPermission(
                ResponseCode.NO_PERMISSION,
                f"the broker[{broker_ip}] sending transaction message is forbidden",
            )
        properties.pop(names.DELAY, None)
        draft.sys_flag &= ~TRANSACTION_MASK
        divert(draft, properties, system_names.TRANSACTION_HALF, QUEUE_ID)
        return True

    return divert_half


def identity_of(half: Record) -> Identity | None:
    """Return what the half's copies share with it; None when its producer gave it no id."""
    unique_id = names.find_text(half.properties, names.UNIQ_KEY)
    return None if unique_id is None else f"{unique_id} {half.born_at_ms}"


class DecidedOffsets:
    """A set of offsets from `start` on, one bit each."""

    __slots__ = ("_bits", "start")

    def __init__(self, start: int) -> None:
        self.start = start
        self._bits = bytearray()

    def add(self, offset: int) -> None:
        """Add an offset; one before the start is known to be decided and changes nothing."""
        index, bit = divmod(offset - self._base, 8)
        if offset < self.start:
            return
        if index >= len(self._bits):
            self._bits.extend(bytes(index + 1 - len(self._bits)))
        self._bits[index] |= 1 << bit

    def __contains__(self, offset: int) -> bool:
        index, bit = divmod(offset - self._base, 8)
        return offset >= self.start and index < len(self._bits) and bool(self._bits[index] & 1 << bit)

    def bits_before(self, end: int) -> bytearray:
        """Return the bits themselves, one for each offset before `end` at least: for whoever adds many.

        The first is that of `start`, brought down to a multiple of eight.
        """
        missing = (end - self._base + 7) // 8 - len(self._bits)
        if missing > 0:
            self._bits.extend(bytes(missing))
        return self._bits

    def start_at(self, offset: int) -> None:
        """Forget what is before `offset`, and never know it again."""
        base = self._base
        self.start = offset
        del self._bits[: (self._base - base) // 8]

    @property
    def _base(self) -> int:
        """The offset of the lowest bit: bits are dropped by whole bytes."""
        return self.start - self.start % 8


class HalfMessages(KindFollower):
    """The undecided half messages. The queues are the truth; this table follows them."""

    name = "transactions"
    topics = (system_names.TRANSACTION_HALF, system_names.TRANSACTION_OP_HALF)
    # The checkpoint is a group's progress, which a replica has from its master.
    is_on_replicas = False

    def __init__(self, store: MessageStore, groups: OffsetTable, settings: BrokerSettings) -> None:
        super().__init__(store)
        self._groups = groups
        self._settings = settings
        self._decided = DecidedOffsets(0)
        self._op_progress = 0
        #: The half offsets that the op messages from `_op_progress` on name, in their order.
        self._ops = array("q")
        #: How many of them are before the progress, and only not dropped yet.
        self._ops_passed = 0
        #: Where the newest copy is of each half that was stored again, from the progress on.
        self._latest: dict[Identity, int] = {}
        #: Asks about the halves that nobody decided, and notes the progress.
        self.check: Callable[[], Awaitable[None]] | None = None
        #: Returns the half offsets that planned op messages name, once: the bytes of an array of int64.
        self.take_ended: Callable[[], bytes] = bytes

    @property
    def progress(self) -> int:
        """The offset of the oldest half that may be undecided."""
        return self._decided.start

    @property
    def op_progress(self) -> int:
        """The offset of the oldest op message that is still needed."""
        return self._op_progress

    # The log

    def load(self) -> None:
        """Find out from the queues what is decided and what was stored again; complete what a crash tore."""
        for topic in self.topics:
            self._offsets[topic] = self._start_of(topic)
        self._decided = DecidedOffsets(self._offsets[system_names.TRANSACTION_HALF])
        self._op_progress = self._offsets[system_names.TRANSACTION_OP_HALF]
        self.catch_up()
        last_position = last_record_position(self._store)
        last = None if last_position is None else self._store.record_at(last_position)
        if last is not None:
            self._complete(last)

    def apply(self, record: Record) -> None:
        """Note a copy of a half, which takes the place of those before it, or what an op message decides."""
        if record.topic == system_names.TRANSACTION_OP_HALF:
            self._apply_op(record)
        elif _is_copy(record) and (identity := identity_of(record)) is not None:
            self._latest[identity] = record.queue_offset

    def grew(self, topic: str, queue_id: int, first: int, end: int) -> None:
        """Take in what op messages decide; halves that the kernel stores are no copies, and need nothing.

        Of the ends that it planned, the kernel says what they decide, and their bits are set already.
        """
        if topic == system_names.TRANSACTION_HALF:
            return
        ended = self.take_ended()
        if len(ended) == (end - first) * self._ops.itemsize:
            self._note_lost_ops(first)
            self._ops.frombytes(ended)
        else:
            super().grew(topic, queue_id, first, end)

    def _note_lost_ops(self, next_offset: int) -> None:
        """Note op messages that were lost before an offset; they decide nothing."""
        known = self._op_progress + len(self._ops) - self._ops_passed
        self._ops.extend([-1] * (next_offset - known))

    def _apply_op(self, op: Record) -> None:
        ops = self._ops
        self._note_lost_ops(op.queue_offset)
        end = self._store.max_offset(system_names.TRANSACTION_HALF, QUEUE_ID)
        offsets = [offset for offset in _decided_by(op) if offset < end]
        for offset in offsets:
            self._decided.add(offset)
        ops.append(max(offsets, default=-1))

    def _complete(self, last: Record) -> None:
        """Store the op message that a crash kept from standing behind the log's last message."""
        half = self._ended_by(last)
        offset = -1 if half is None else self.latest_offset(half)
        if half is None or self.is_decided(offset):
            return
        log.info("the crash came between the end of transaction %d and its note, which is made now", offset)
        self.decide(offset)
        try:
            self._store.put(op_draft(offset, now_ms=last.stored_at_ms, host=last.store_host))
        except StoreError as error:
            log.warning("the end of the transaction at half offset %d was not stored: %s", offset, error)

    def _ended_by(self, message: Record) -> Record | None:
        """Return the half that a message came from, by its commit or by being given up."""
        draft = draft_of(message)
        if message.topic == system_names.TRANSACTION_CHECK_MAX_TIME:
            end = self._store.max_offset(system_names.TRANSACTION_HALF, QUEUE_ID)
            halves = self._records(system_names.TRANSACTION_HALF, self.progress, end)
            return next((half for half in halves if given_up_draft(half) == draft), None)
        draft.prepared_position = message.prepared_position
        half = self._store.record_at(message.prepared_position)
        if half is None or half.topic != system_names.TRANSACTION_HALF:
            return None
        # Position 0, where a half may be, is also what all other messages name.
        return half if committed_draft(half) == draft else None

    # What is known

    def find(self, offset: int) -> Record | None:
        """Return the half at an offset, or None when the store does not have it any more."""
        entries = self._store.entries(system_names.TRANSACTION_HALF, QUEUE_ID, offset, 1)
        return self._store.record_at(entries[0][0]) if entries else None

    def latest_offset(self, half: Record) -> int:
        """Return the offset of the newest copy of a half, its own if it was not stored again."""
        offset = half.queue_offset
        identity = identity_of(half) if self._latest else None
        return offset if identity is None else max(self._latest.get(identity, offset), offset)

    def is_decided(self, offset: int) -> bool:
        """Return whether the half at this offset needs nothing more."""
        return offset < self.progress or offset in self._decided

    def look(self) -> tuple[bytearray, int, dict[Identity, int]]:
        """Return what the kernel looks at: a bit for each half that is decided, from which offset on they are
        not all decided, and where the newest copies are.
        """
        end = self._store.max_offset(system_names.TRANSACTION_HALF, QUEUE_ID)
        return self._decided.bits_before(end), self.progress, self._latest

    def decide(self, offset: int) -> None:
        """Note that a half, whose newest copy is at `offset`, is decided."""
        self._decided.add(offset)

    def pass_on(self) -> None:
        """Move past the oldest half, which is decided, given up or stored again."""
        self._decided.start_at(self.progress + 1)

    def start_at(self, offset: int) -> None:
        """Move on to `offset`: the store does not have the halves before it any more."""
        self._decided.start_at(offset)

    def pass_old_ops(self, count_max: int) -> bool:
        """Move past some op messages about halves before the progress; return whether there may be more."""
        ops, at = self._ops, self._ops_passed
        end = min(at + count_max, len(ops))
        while at < end and ops[at] < self.progress:
            at += 1
        self._op_progress += at - self._ops_passed
        is_more = self._ops_passed < at == end < len(ops)
        self._ops_passed = at
        if not is_more:
            del ops[:at]
            self._ops_passed = 0
            for identity in [known for known, copy in self._latest.items() if copy < self.progress]:
                del self._latest[identity]
        return is_more

    # The checkpoint

    async def save(self, durability: Durability) -> None:
        """Note how far everything is decided, when the disk has what says so."""
        reached = dict(zip(self.topics, (self.progress, self.op_progress), strict=True))
        moved = {topic: offset for topic, offset in reached.items() if offset != self._noted(topic)}
        if moved:
            await durability.sync_now()
        for topic, offset in moved.items():
            self._groups.commit(TRANSACTION_GROUP, topic, QUEUE_ID, offset)

    def _noted(self, topic: str) -> int:
        return self._groups.progress(TRANSACTION_GROUP, topic, QUEUE_ID) or 0

    def _start_of(self, topic: str) -> int:
        low = self._store.min_offset(topic, QUEUE_ID)
        high = self._store.max_offset(topic, QUEUE_ID)
        progress = self._groups.progress(TRANSACTION_GROUP, topic, QUEUE_ID)
        return low if progress is None else max(min(progress, high), low)

    def forget_beyond(self, _cut_at: int) -> None:
        """Look at the halves from the oldest on: decisions may be cut off."""
        self._groups.forget_on_disk(TRANSACTION_GROUP)

    # On a master

    def diversions(self, broker_ip: str) -> Mapping[str, Diversion]:
        """Return what sends halves to their topic."""
        return {names.TRANSACTION_PREPARED: half_diversion(self._settings, broker_ip=broker_ip)}

    def plain_diversions(self) -> Sequence[PlainDiversion]:
        """Return that a half goes to the half topic; nothing while all are refused."""
        if self._settings.reject_transaction_message:
            return ()
        return [
            PlainDiversion(
                name=names.TRANSACTION_PREPARED,
                topic=system_names.TRANSACTION_HALF,
                word=_TRUE,
                excludes=_OF_COPIES,
                cleared=TRANSACTION_MASK,
            )
        ]

    @property
    def upkeep_s(self) -> float:
        """The interval in seconds at which producers are asked."""
        return self._settings.transaction_check_interval / 1000

    async def upkeep(self, _durability: Durability) -> None:
        """Ask about the halves that nobody decided."""
        if self.check is not None:
            await self.check()


def _is_copy(half: Record) -> bool:
    return any(name in half.properties for name in _OF_COPIES)


def _decided_by(op: Record) -> list[int]:
    """Return the half offsets that an op message names; 4.9 writes one, 5.x several with commas."""
    if names.find_text(op.properties, names.TAGS) != DONE_TAG:
        log.error("op message %d has no tag that is known", op.queue_offset)
        return []
    words = op.body.decode("utf-8", "replace").split(",")
    return [int(word) for word in words if word.isascii() and word.isdecimal()]
