"""Messages encoded as records of the log, which are planned and not yet written.

    add       a message ──► a record behind the others, and a note for queues and index
    (Python writes the records to the log, with one write)
    apply     notes ──► queues, key index

Nothing else changes before the log has the records: until `apply`, a plan can be dropped and made again.
`pyromq.wire.record` and `pyromq.store.store` are the same in Python and say why each byte is where it is.
"""

from cpython.buffer cimport PyBUF_READ, PyBUF_SIMPLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.object cimport PyObject
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memchr, memcmp

from pyromq._kernel.codec.bigend cimport load16, load32, store16, store32, store64
from pyromq._kernel.codec.blocks cimport copy, need
from pyromq._kernel.codec.crc32 cimport pyromq_crc32
from pyromq._kernel.storage.drafts cimport Draft, is_text, note_text
from pyromq._kernel.storage.known cimport Topic
from pyromq._kernel.codec.layout cimport CRC_MASK, HEAD_BYTES, MAGIC_V1
from pyromq._kernel.storage.notes cimport Notes
from pyromq._kernel.storage.pairs cimport NAME_END, PAIR_END
from pyromq._kernel.storage.tails cimport IndexTail, QueueTail

cdef enum:
    SYS_TRANSACTION = 12
    SYS_HOSTS_V6 = 48
    HOST_BYTES = 8
    UNIT_BYTES_MIN = 22
    TOPIC_BYTES_MAX = 127
    PROPERTIES_BYTES_MAX = 32767
    INT32_MAX = 2147483647


cdef class Plan(Notes):
    """Records, and notes of them. Nothing of a plan outlives the next."""

    def __cinit__(self, *, bytes store_host not None, **_others):
        if len(store_host) != HOST_BYTES:
            raise ValueError("the store's host is not an IPv4 one")
        self._store_host = store_host

    def __dealloc__(self):
        free(self._records.bytes)

    def plan_units(
        self,
        units,
        Py_ssize_t start,
        *,
        bytes topic not None,
        Py_ssize_t queue_id,
        QueueTail queue not None,
        int32_t sys_flag,
        int64_t born_at_ms,
        bytes born_host not None,
        int64_t prepared_position,
        bytes more_properties not None,
        int64_t now_ms,
        int64_t log_end,
        int64_t log_room,
        int64_t index_room,
    ):
        """Plan the messages of a batch's body from byte `start` on, all or none; return how many.

        They go to a queue that need not be learnt, with `more_properties` behind their own. 0 leaves them to
        Python.
        """
        cdef Draft draft
        cdef Py_buffer view
        cdef const uint8_t *at
        cdef bint is_planned = False
        cdef bint is_hosted = PyBytes_GET_SIZE(born_host) == HOST_BYTES
        self.clear()
        if not 0 < len(topic) <= TOPIC_BYTES_MAX or not 0 <= queue_id <= INT32_MAX or queue.gone or not is_hosted:
            return 0
        if sys_flag & (SYS_TRANSACTION | SYS_HOSTS_V6):
            return 0
        self.begin(now_ms, born_host, log_end, log_room, index_room)
        draft.queue_id = <int32_t> queue_id
        draft.sys_flag = sys_flag
        draft.reconsume_times = 0
        draft.born_at_ms = born_at_ms
        draft.prepared_position = prepared_position
        draft.is_noted = False
        draft.more_properties.at = <const uint8_t *> PyBytes_AS_STRING(more_properties)
        draft.more_properties.length = PyBytes_GET_SIZE(more_properties)
        self._kept_queue = queue
        PyObject_GetBuffer(units, &view, PyBUF_SIMPLE)
        try:
            at = <const uint8_t *> view.buf
            if 0 <= start < view.len:
                is_planned = self.add_units(
                    at + start, at + view.len, &draft, Topic(topic, sys_flag), <PyObject *> queue
                )
        finally:
            PyBuffer_Release(&view)
        if not is_planned:
            self.clear()
        return self.message_count

    # For whoever plans

    cdef int begin(
        self, int64_t now_ms, bytes born_host, int64_t log_end, int64_t log_room, int64_t index_room
    ) except -1:
        """Say what is the same for all messages of an empty plan."""
        self._now_ms = now_ms
        self._born_host = born_host
        self._end = log_end
        self._limit = log_end + log_room
        self._index_room = index_room
        return 0

    cdef Mark mark(self) noexcept:
        """Return how far the plan has come, for `undo`."""
        cdef Mark mark
        mark.records, mark.entries, mark.hashes = self._records.used, self._entries.used, self._hashes.used
        return mark

    cdef int undo(self, Mark mark, PyObject *queue, int64_t first_offset) except -1:
        """Forget what was added since, all of it to one queue."""
        self._end -= self._records.used - mark.records
        self._records.used, self._entries.used, self._hashes.used = mark.records, mark.entries, mark.hashes
        (<QueueTail> queue).planned = first_offset - (<QueueTail> queue).end
        return 0

    cdef bint add_units(
        self, const uint8_t *at, const uint8_t *end, Draft *draft, Topic topic, PyObject *queue
    ) except -1:
        """Add the messages of a batch; return False, with some of them added, when one is not plain."""
        cdef int64_t size, body_length, properties_length
        if at == end or PyBytes_GET_SIZE(topic.name) > TOPIC_BYTES_MAX:
            return False
        while at < end:
            if end - at < UNIT_BYTES_MIN:
                return False
            size = load32(at)
            body_length = load32(at + 16)
            if size > end - at or body_length < 0 or UNIT_BYTES_MIN + body_length > size:
                return False
            draft.flag = load32(at + 12)
            draft.body = at + 20
            draft.body_length = body_length
            properties_length = load16(at + 20 + body_length)
            if properties_length != size - UNIT_BYTES_MIN - body_length:
                return False
            draft.properties.at = at + UNIT_BYTES_MIN + body_length
            draft.properties.length = properties_length
            if not is_text(draft.properties.at, properties_length):
                return False
            draft.is_parted = properties_length > 0 and (at + size - 1)[0] != PAIR_END
            if not self.add(draft, topic, queue):
                return False
            at += size
        return True

    cdef bint add(self, Draft *draft, Topic topic, PyObject *queue) except -1:
        """Encode a message that arrived now as a record; see `add_from`."""
        return self.add_from(
            draft, topic, queue, <const uint8_t *> PyBytes_AS_STRING(self._born_host),
            <const uint8_t *> PyBytes_AS_STRING(self._store_host),
        )

    cdef bint add_from(
        self, Draft *draft, Topic topic, PyObject *queue, const uint8_t *born_host, const uint8_t *store_host
    ) except -1:
        """Encode one record, and note what the followers are to know of it; False when there is no room."""
        cdef Py_ssize_t topic_length = PyBytes_GET_SIZE(topic.name)
        cdef Py_ssize_t text_length = (
            draft.properties.length + draft.is_parted + draft.more_properties.length
        )
        cdef Py_ssize_t size = HEAD_BYTES + draft.body_length + 1 + topic_length + 2 + text_length
        cdef uint8_t *at
        cdef uint8_t *text
        if text_length > PROPERTIES_BYTES_MAX or self._end + size > self._limit:
            return False
        need(&self._records, size)
        at = self._records.bytes + self._records.used
        at = store32(at, <int32_t> size)
        at = store32(at, MAGIC_V1)
        at = store32(at, <int32_t> (pyromq_crc32(0, draft.body, draft.body_length) & CRC_MASK))
        at = store32(at, draft.queue_id)
        at = store32(at, draft.flag)
        at = store64(at, (<QueueTail> queue).end + (<QueueTail> queue).planned)
        at = store64(at, self._end)
        at = store32(at, draft.sys_flag)
        at = store64(at, draft.born_at_ms)
        at = copy(at, born_host, HOST_BYTES)
        at = store64(at, self._now_ms)
        at = copy(at, store_host, HOST_BYTES)
        at = store32(at, draft.reconsume_times)
        at = store64(at, draft.prepared_position)
        at = store32(at, <int32_t> draft.body_length)
        at = copy(at, draft.body, draft.body_length)
        at[0] = <uint8_t> topic_length
        at = copy(at + 1, PyBytes_AS_STRING(topic.name), topic_length)
        at = store16(at, <int16_t> text_length)
        text = at
        at = copy(at, draft.properties.at, draft.properties.length)
        if draft.is_parted:
            at[0] = PAIR_END
            at += 1
        copy(at, draft.more_properties.at, draft.more_properties.length)

        if not draft.is_noted:
            note_text(draft, text, text_length)
        if not self.note(queue, self._end, <int32_t> size, self._now_ms, &draft.wanted, topic.key_head):
            return False
        self._records.used += size
        self._end += size
        return True

    # What was planned

    @property
    def records(self):
        """The planned records, one behind the other; to be looked at before the next plan."""
        if self._records.used == 0:
            return memoryview(b"")
        return PyMemoryView_FromMemory(<char *> self._records.bytes, self._records.used, PyBUF_READ)

    @property
    def end(self):
        """The log position behind the planned records."""
        return self._end

    cdef int clear(self) except -1:
        Notes.clear(self)
        self._records.used = 0
        return 0

    def apply(self, IndexTail index, Py_ssize_t held_bytes_max):
        """Let the queues and the index have what the log has now, and forget the plan.

        Return the queues that hold `held_bytes_max` or more, and those that are watched or followed, each with the
        offset from which on its messages are new.
        """
        return self.enter(index, held_bytes_max, False)


# Units: the messages of a batch, as a send has them in its body


def measure_units(bytes units not None, tuple kinds not None, Py_ssize_t more_bytes):
    """Return how many messages a batch's body has, and how many bytes of body and properties; None: ask Python.

    `kinds` are names of properties that plain messages do not have. `more_bytes` of properties come to each.
    """
    cdef const uint8_t *at = <const uint8_t *> PyBytes_AS_STRING(units)
    cdef const uint8_t *end = at + PyBytes_GET_SIZE(units)
    cdef int64_t size, body_length, length
    cdef Py_ssize_t count = 0, content = 0
    cdef uint64_t lengths = _lengths_of(kinds)
    while at < end:
        if end - at < UNIT_BYTES_MIN:
            return None
        size = load32(at)
        body_length = load32(at + 16)
        if size > end - at or body_length < 0 or UNIT_BYTES_MIN + body_length > size:
            return None
        length = load16(at + 20 + body_length)
        if length != size - UNIT_BYTES_MIN - body_length or length + more_bytes > PROPERTIES_BYTES_MAX:
            return None
        at += UNIT_BYTES_MIN + body_length
        if not is_text(at, length) or _has_name(at, at + length, kinds, lengths):
            return None
        at += length
        content += body_length + length
        count += 1
    return count, content


cdef uint64_t _lengths_of(tuple names) except? 0:
    """Return a bit for each length that names have; the last stands for all that are longer."""
    cdef uint64_t lengths = 0
    cdef bytes name
    for name in names:
        lengths |= <uint64_t> 1 << min(len(name), 63)
    return lengths


cdef bint _has_name(const uint8_t *at, const uint8_t *end, tuple kinds, uint64_t lengths) except -1:
    """Whether a property string has a pair with one of these names."""
    cdef const uint8_t *name_end
    cdef const uint8_t *pair_end
    cdef bytes name
    while at < end:
        pair_end = <const uint8_t *> memchr(at, PAIR_END, end - at)
        if pair_end == NULL:
            pair_end = end
        name_end = <const uint8_t *> memchr(at, NAME_END, pair_end - at)
        if name_end != NULL and lengths >> min(name_end - at, 63) & 1:
            for name in kinds:
                if PyBytes_GET_SIZE(name) == name_end - at and memcmp(PyBytes_AS_STRING(name), at, name_end - at) == 0:
                    return True
        at = pair_end + 1
    return False
