"""Records that are in a log: queue entries and index keys, from bytes that a master sent or that were stored before.

    plan      received bytes ──► the length of the plain records at their front; notes for queues and index
    (Python writes these bytes to the log, as they are)
    apply     notes ──► queues, key index

Nothing changes before the log has the records: until `apply`, a plan can be dropped.

Only plain records are planned: the next message of a queue that Python has made known with `learn`, with properties
in ASCII. Of queues that have the times when messages are due, `learn` says where a record has it. At the first
record that is anything else, or not whole, `plan` stops and Python goes on with it.
`pyromq.store.replica` and `pyromq.store.follower` are the same in Python and say why.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp

from pyromq._kernel.codec.bigend cimport java_hash, load32, load64
from pyromq._kernel.codec.crc32 cimport pyromq_crc32
from pyromq._kernel.codec.frames cimport Span, read_number
from pyromq._kernel.storage.drafts cimport begin_wanted, is_text
from pyromq._kernel.codec.layout cimport (
    BODY_CRC_AT, CRC_MASK, POSITION_AT, PREPARED, QUEUE_ID_AT, QUEUE_OFFSET_AT, STORED_AT_AT,
    Plain, Text, next_pair, next_part, read_plain,
)
from pyromq._kernel.storage.notes cimport Notes, Wanted
from pyromq._kernel.storage.tails cimport IndexTail, QueueTail

cdef enum:
    QUEUE_COUNT_MAX = 4096
    TOPIC_COUNT_MAX = 65536

cdef int64_t MS_MAX = (<int64_t> 1) << 60
#: Levels of more digits are none.
cdef int64_t LEVEL_MAX = 9999999999


cdef class Topic:
    """A topic whose messages are plain."""

    cdef bytes name
    cdef uint32_t key_head
    #: By their ids; None where none is known.
    cdef list queues
    #: The property that says when a message is due, where queues have that; None where they have tags.
    cdef bytes due_name
    #: The property says a level: the delay of each, the first one first. Else it is the time itself.
    cdef list delays_ms

    def __init__(self, bytes name not None, bytes due_name=None, delays_ms=()):
        self.name = name
        self.due_name = due_name
        self.delays_ms = list(delays_ms)
        self.key_head = java_hash(0, <const uint8_t *> PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name))
        self.key_head = java_hash(self.key_head, <const uint8_t *> b"#", 1)
        self.queues = []


cdef class Copies(Notes):
    """A plan of copied records."""

    cdef dict _topics
    cdef Topic _last
    #: When the last planned record was stored.
    cdef int64_t _stored_at_ms

    def __cinit__(self, **_others):
        self._topics = {}

    def learn(
        self, bytes topic not None, Py_ssize_t queue_id, QueueTail queue not None, bytes due_name=None, delays_ms=()
    ):
        """Let the next plain records of a queue be planned; nothing may be planned now.

        With `due_name` the queue has the times when messages are due: that property says it, or a level.
        """
        cdef Topic known = self._topics.get(topic)
        if not 0 <= queue_id < QUEUE_COUNT_MAX or self._entries.used:
            return
        if known is None:
            if len(self._topics) >= TOPIC_COUNT_MAX:
                self._topics.clear()
                self._last = None
            known = self._topics[topic] = Topic(topic, due_name, delays_ms)
        while PyList_GET_SIZE(known.queues) <= queue_id:
            known.queues.append(None)
        known.queues[queue_id] = queue

    def plan(self, const uint8_t[::1] data not None, int64_t position, int64_t room, int64_t index_room):
        """Plan the plain records that bytes begin with, and return how many bytes they are.

        They stand at a position of the log, in a file that has room for `room` bytes; the index takes
        `index_room` keys.
        """
        cdef Py_ssize_t at = 0, left = data.shape[0]
        cdef Plain record
        self.clear()
        self._index_room = index_room
        if left > room:
            left = <Py_ssize_t> room
        while left > 0 and read_plain(&data[0] + at, left, &record):
            if not self._plan_one(&record, position + at):
                break
            at += record.size
            left -= record.size
        return at

    cdef bint _plan_one(self, Plain *record, int64_t position) except -1:
        cdef const uint8_t *head = record.head
        cdef QueueTail queue
        cdef Wanted wanted
        cdef int64_t stored_at_ms = load64(head + STORED_AT_AT)
        # Bit 2 is set in prepared and in rolled-back messages, which have no place in a queue.
        if record.flags & PREPARED or load64(head + POSITION_AT) != position:
            return False
        # Java hashes ASCII as it is; zeros may be what a torn write left.
        if not is_text(record.properties.at, record.properties.length):
            return False
        queue = self._queue(&record.topic, load32(head + QUEUE_ID_AT))
        if queue is None or queue.gone or load64(head + QUEUE_OFFSET_AT) != queue.end + queue.planned:
            return False
        if <int32_t> (pyromq_crc32(0, record.body.at, record.body.length) & CRC_MASK) != load32(head + BODY_CRC_AT):
            return False
        _find_wanted(record.properties, &wanted)
        if self._last.due_name is not None and not self._find_due(record.properties, stored_at_ms, &wanted):
            return False
        if not self.note(
            <PyObject *> queue, position, record.size, stored_at_ms, &wanted, self._last.key_head
        ):
            return False
        self._stored_at_ms = stored_at_ms
        return True

    cdef bint _find_due(self, Text properties, int64_t stored_at_ms, Wanted *wanted) except -1:
        """Find out when a message is due; return False when that is Python's to say."""
        cdef bytes name = self._last.due_name
        cdef list delays_ms = self._last.delays_ms
        cdef Text part
        cdef Text found
        cdef Span value
        cdef int64_t number = 0
        found.at, found.length = properties.at, 0
        while next_part(&properties, 2, &part):
            if begins_with(&part, b"TIMER_DEL_UNIQKEY", 17):
                return False
            if begins_with(&part, PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name)):
                # Of two the later holds, unless it is empty.
                if part.length > PyBytes_GET_SIZE(name) + 1:
                    found.at = part.at + PyBytes_GET_SIZE(name) + 1
                    found.length = part.length - PyBytes_GET_SIZE(name) - 1
        value.at, value.length = found.at, found.length
        if not 0 <= stored_at_ms < MS_MAX or not read_number(&value, 1, MS_MAX, &number):
            return False
        if not delays_ms:
            wanted.due_ms = number
        elif number > LEVEL_MAX:
            return False
        else:
            wanted.due_ms = stored_at_ms + <int64_t> delays_ms[min(number, PyList_GET_SIZE(delays_ms)) - 1]
        return True

    cdef QueueTail _queue(self, Text *topic, int32_t queue_id):
        cdef Topic known = self._last
        if (
            known is None or PyBytes_GET_SIZE(known.name) != topic.length
            or memcmp(PyBytes_AS_STRING(known.name), topic.at, topic.length) != 0
        ):
            known = self._topics.get(PyBytes_FromStringAndSize(<const char *> topic.at, topic.length))
            if known is None:
                return None
            self._last = known
        if not 0 <= queue_id < PyList_GET_SIZE(known.queues):
            return None
        return <QueueTail> PyList_GET_ITEM(known.queues, queue_id)

    def apply(self, IndexTail index, Py_ssize_t held_bytes_max):
        """Let the queues and the index have what the log has now, and forget the plan.

        Return the queues that hold `held_bytes_max` or more; those that grew, each with the offset from which
        on its messages are new; and when the last record was stored, −1 when there is none.
        """
        cdef int64_t stored_at_ms = self._stored_at_ms if self._entries.used else -1
        full, grown = self.enter(index, held_bytes_max, True)
        return full, grown, stored_at_ms


cdef inline bint begins_with(Text *part, const char *name, Py_ssize_t length) noexcept nogil:
    """Whether a pair has a name, with a value or without."""
    return part.length > length and part.at[length] == 1 and memcmp(part.at, name, length) == 0


cdef inline void _find_wanted(Text properties, Wanted *wanted) noexcept nogil:
    """Find what queues and index want of the properties; of two pairs with one name the later holds."""
    cdef Text name, value
    begin_wanted(wanted, properties.at)
    while next_pair(&properties, &name, &value):
        if name.length == 4:
            if memcmp(name.at, b"TAGS", 4) == 0:
                wanted.tags = value
            elif memcmp(name.at, b"KEYS", 4) == 0:
                wanted.keys = value
        elif name.length == 8 and memcmp(name.at, b"UNIQ_KEY", 8) == 0:
            wanted.identity = value
