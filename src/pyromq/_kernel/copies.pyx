"""Records of a master's log, from the received bytes to what a slave's followers are to know.

    plan      received bytes ──► how far they are plain records; what the followers are to know of them
    (Python writes these bytes to the log, as they are)
    apply     what the followers are to know ──► queues, key index

Nothing is changed before the log has the records: until `apply`, a plan can be dropped.

Only plain records are planned: of a queue that Python has made known with `learn`, whose next message it is, and
with properties that have nothing but ASCII. At the first that is anything else, or not whole, `plan` stops and
Python goes on with it: `pyromq.store.replica` and `pyromq.store.follower` mean the same and say why.
"""

from cpython.bytearray cimport PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memchr, memcmp

from pyromq._kernel.bigend cimport java_hash, load32, load64
from pyromq._kernel.crc32 cimport pyromq_crc32
from pyromq._kernel.layout cimport (
    BODY_CRC_AT, CRC_MASK, POSITION_AT, PREPARED, QUEUE_ID_AT, QUEUE_OFFSET_AT, STORED_AT_AT,
    Plain, Text, next_pair, read_plain,
)
from pyromq._kernel.tails cimport IndexTail, QueueTail

cdef enum:
    QUEUE_COUNT_MAX = 4096
    TOPIC_COUNT_MAX = 65536


cdef struct Entry:
    PyObject *queue
    int64_t position
    int64_t stored_at_ms
    int64_t tags_code
    int32_t size
    int32_t hash_count


cdef struct Block:
    uint8_t *bytes
    Py_ssize_t used
    Py_ssize_t room


cdef class Topic:
    """A topic whose messages are plain."""

    cdef bytes name
    cdef uint32_t key_head
    #: By their ids; None where none is known.
    cdef list queues

    def __init__(self, bytes name not None):
        self.name = name
        self.key_head = java_hash(0, <const uint8_t *> PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name))
        self.key_head = java_hash(self.key_head, <const uint8_t *> b"#", 1)
        self.queues = []


cdef class Copies:
    """A plan of copied records."""

    cdef dict _topics
    cdef Topic _last
    cdef Block _entries, _hashes
    cdef bint _has_index

    def __init__(self, bint has_index):
        self._topics = {}
        self._has_index = has_index

    def __dealloc__(self):
        free(self._entries.bytes)
        free(self._hashes.bytes)

    def learn(self, bytes topic not None, Py_ssize_t queue_id, QueueTail queue not None):
        """Let the next plain records of a queue be planned; nothing may be planned now."""
        cdef Topic known = self._topics.get(topic)
        if not 0 <= queue_id < QUEUE_COUNT_MAX or self._entries.used:
            return
        if known is None:
            if len(self._topics) >= TOPIC_COUNT_MAX:
                self._topics.clear()
                self._last = None
            known = self._topics[topic] = Topic(topic)
        while PyList_GET_SIZE(known.queues) <= queue_id:
            known.queues.append(None)
        known.queues[queue_id] = queue

    @property
    def message_count(self):
        """How many records are planned."""
        return self._entries.used // <Py_ssize_t> sizeof(Entry)

    def plan(self, const uint8_t[::1] data not None, int64_t position, int64_t room, int64_t index_room):
        """Plan the plain records that bytes begin with, and return how many bytes they are.

        They stand at a position of the log, in a file that has room for `room` bytes; the index takes
        `index_room` keys.
        """
        cdef Py_ssize_t at = 0, left = data.shape[0]
        cdef Plain record
        self.drop()
        if left > room:
            left = <Py_ssize_t> room
        while left > 0 and read_plain(&data[0] + at, left, &record):
            if not self._plan_one(&record, position + at, index_room):
                break
            at += record.size
            left -= record.size
        return at

    cdef bint _plan_one(self, Plain *record, int64_t position, int64_t index_room) except -1:
        cdef const uint8_t *head = record.head
        cdef QueueTail queue
        cdef Entry *entry
        # Bit 2 is set in prepared and in rolled-back messages, which have no place in a queue.
        if record.flags & PREPARED or load64(head + POSITION_AT) != position:
            return False
        if not _is_ascii(&record.properties):
            return False
        queue = self._queue(&record.topic, load32(head + QUEUE_ID_AT))
        if queue is None or queue.gone or load64(head + QUEUE_OFFSET_AT) != queue.end + queue.planned:
            return False
        if <int32_t> (pyromq_crc32(0, record.body.at, record.body.length) & CRC_MASK) != load32(head + BODY_CRC_AT):
            return False
        _need(&self._entries, sizeof(Entry))
        entry = <Entry *> (self._entries.bytes + self._entries.used)
        entry.queue = <PyObject *> queue
        entry.position = position
        entry.size = record.size
        entry.stored_at_ms = load64(head + STORED_AT_AT)
        self._note(entry, record.properties)
        if self._hashes.used // <Py_ssize_t> sizeof(int32_t) > index_room:
            self._hashes.used -= entry.hash_count * <Py_ssize_t> sizeof(int32_t)
            return False
        self._entries.used += sizeof(Entry)
        queue.planned += 1
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

    cdef int _note(self, Entry *entry, Text properties) except -1:
        """Note what the followers want of the properties; of two pairs with one name the later holds."""
        cdef Text name, value, tags, identity, keys
        cdef const uint8_t *at
        cdef const uint8_t *end
        cdef const uint8_t *word_end
        tags.length = identity.length = keys.length = 0
        tags.at = identity.at = keys.at = properties.at
        while next_pair(&properties, &name, &value):
            if name.length == 4:
                if memcmp(name.at, b"TAGS", 4) == 0:
                    tags = value
                elif memcmp(name.at, b"KEYS", 4) == 0:
                    keys = value
            elif name.length == 8 and memcmp(name.at, b"UNIQ_KEY", 8) == 0:
                identity = value
        entry.tags_code = <int32_t> java_hash(0, tags.at, tags.length)
        entry.hash_count = 0
        if not self._has_index:
            return 0
        if identity.length:
            self._add_hash(entry, java_hash(self._last.key_head, identity.at, identity.length))
        at, end = keys.at, keys.at + keys.length
        while at < end:
            word_end = <const uint8_t *> memchr(at, c' ', end - at)
            if word_end == NULL:
                word_end = end
            if word_end > at:
                self._add_hash(entry, java_hash(self._last.key_head, at, word_end - at))
            at = word_end + 1
        return 0

    cdef int _add_hash(self, Entry *entry, uint32_t value) except -1:
        if value & <uint32_t> 0x80000000:
            # Java's, made positive; of the one that has no positive RocketMQ makes 0.
            value = (0 - value) & 0x7FFFFFFF
        _need(&self._hashes, sizeof(int32_t))
        (<int32_t *> (self._hashes.bytes + self._hashes.used))[0] = <int32_t> value
        self._hashes.used += sizeof(int32_t)
        entry.hash_count += 1
        return 0

    def drop(self):
        """Forget what was planned."""
        cdef Py_ssize_t i = 0
        while i < self._entries.used:
            (<QueueTail> (<Entry *> (self._entries.bytes + i)).queue).planned = 0
            i += sizeof(Entry)
        self._entries.used = self._hashes.used = 0

    def apply(self, IndexTail index, Py_ssize_t held_bytes_max):
        """Let the queues and the index have what the log has now, and forget the plan.

        Return the queues that hold `held_bytes_max` or more; those that grew, each with the offset from which
        on its messages are new; and when the last record was stored, −1 when there is none.
        """
        cdef Py_ssize_t i = 0, key = 0
        cdef int k
        cdef Entry *entry
        cdef QueueTail queue
        cdef int64_t stored_at_ms = -1
        cdef list full = [], grown = []
        while i < self._entries.used:
            entry = <Entry *> (self._entries.bytes + i)
            queue = <QueueTail> entry.queue
            if queue.grown_from < 0:
                queue.grown_from = queue.end
                grown.append(queue)
            queue.enter(entry.position, entry.size, entry.tags_code)
            if (
                PyByteArray_GET_SIZE(queue.held) >= held_bytes_max
                and PyByteArray_GET_SIZE(queue.held) < held_bytes_max + 20
            ):
                full.append(queue)
            for k in range(entry.hash_count):
                index.enter((<int32_t *> self._hashes.bytes)[key], entry.position, entry.stored_at_ms)
                key += 1
            stored_at_ms = entry.stored_at_ms
            i += sizeof(Entry)
        self.drop()
        return full, [_take_grown(queue) for queue in grown], stored_at_ms


cdef tuple _take_grown(QueueTail queue):
    cdef int64_t grown_from = queue.grown_from
    queue.grown_from = -1
    return queue, grown_from


cdef bint _is_ascii(Text *text) noexcept nogil:
    """Whether all bytes are characters that Java hashes as they are; zeros may be what a torn write left."""
    cdef Py_ssize_t i
    cdef uint8_t high = 0
    cdef bint has_zero = False
    for i in range(text.length):
        high |= text.at[i]
        has_zero |= text.at[i] == 0
    return not high & 0x80 and not has_zero


cdef int _need(Block *block, Py_ssize_t size) except -1:
    """Make room for `size` more bytes."""
    cdef Py_ssize_t room = block.room
    cdef uint8_t *bytes_
    if block.used + size > room:
        room = max(2 * room, block.used + size, <Py_ssize_t> 4096)
        bytes_ = <uint8_t *> realloc(block.bytes, room)
        if bytes_ == NULL:
            raise MemoryError
        block.bytes = bytes_
        block.room = room
    return 0
