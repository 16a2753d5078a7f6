"""Records of the log that are stored again: a message that is due, committed, or was sent back.

    begin_draft    a position ──► the record there, and a draft that stores it as it is
    (what shall differ is changed on the draft)
    find           a topic and a queue ──► where the record goes, if Python made the queue known
    Plan.add_from  the draft ──► a record behind the others of a plan, and a note

What waits names its topic and queue in REAL_TOPIC and REAL_QID. `pyromq.broker.kinds.stored_again` is the same
in Python and says why. A record that is not plain, or goes where nothing went before, is left to it.
"""

from cpython.buffer cimport PyBUF_SIMPLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from pyromq._kernel.codec.bigend cimport load32, load64, write_decimal
from pyromq._kernel.codec.blocks cimport copy
from pyromq._kernel.codec.frames cimport Span, read_number
from pyromq._kernel.codec.layout cimport (
    BORN_AT_AT, BORN_HOST_AT, FLAG_AT, QUEUE_ID_AT, RECONSUME_TIMES_AT, STORED_AT_AT, STORE_HOST_AT, Plain, Text
)
from pyromq._kernel.storage.drafts cimport Draft, is_text
from pyromq._kernel.storage.known cimport KnownTopics, Topic
from pyromq._kernel.storage.log_views cimport LogViews
from pyromq._kernel.storage.notes cimport Entry
from pyromq._kernel.storage.pairs cimport PAIR_END
from pyromq._kernel.storage.plans cimport Plan
from pyromq._kernel.storage.tails cimport QueueTail

cdef enum:
    QUEUE_ENTRY_BYTES = 20
    TRANSACTION_BITS = 0xC
    PREPARED = 0x4
    ROLLED_BACK = 0xC
    PROPERTIES_BYTES_MAX = 32767
    QUEUE_ID_MAX = 65535
    #: A plan of so many bytes of records is long enough: a turn has to end.
    PLAN_BYTES_MAX = 1048576
    #: "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS", two numbers, and what stands between them.
    TIMES_BYTES_MAX = 96


cdef class Again:
    """Finds records, and the queues that they go to."""

    def __init__(self, *, Py_ssize_t body_bytes_max, **_others):
        self._topics = KnownTopics()
        self._views = LogViews()
        self._body_bytes_max = body_bytes_max

    def learn(self, bytes topic not None, Py_ssize_t queue_id, QueueTail queue not None):
        """Store messages again in this queue from now on."""
        self._topics.learn(topic, queue_id, queue, 0)

    def forget_all(self):
        """Leave all messages to Python, until their queues are learnt again."""
        self._topics.forget_all()

    @property
    def topic_count(self):
        """The number of known topics."""
        return len(self._topics)

    cdef bint begin_draft(self, int64_t position, Plain *record, Draft *draft) except -1:
        """Find the record at a position, and make a draft that stores it again; return whether it is plain."""
        if not self._views.read(position, record) or record.body.length > self._body_bytes_max:
            return False
        if not is_text(record.properties.at, record.properties.length):
            return False
        draft.queue_id = load32(record.head + QUEUE_ID_AT)
        draft.flag = load32(record.head + FLAG_AT)
        draft.sys_flag = record.flags
        draft.reconsume_times = load32(record.head + RECONSUME_TIMES_AT)
        draft.born_at_ms = load64(record.head + BORN_AT_AT)
        # Which half message a committed one came from is not carried over.
        draft.prepared_position = 0
        draft.body, draft.body_length = record.body.at, record.body.length
        draft.properties.at, draft.properties.length = record.properties.at, record.properties.length
        draft.more_properties.at, draft.more_properties.length = record.properties.at, 0
        draft.is_parted = draft.is_noted = False
        return True

    cdef bint find(self, const uint8_t *topic, Py_ssize_t length, int64_t queue_id, Target *target) noexcept:
        """Find a queue by its topic and its number; return whether it is known and there."""
        cdef Span name
        name.at, name.length, name.is_escaped = topic, length, False
        target.topic = self._topics.find(&name)
        target.queue = NULL if target.topic == NULL else (<Topic> target.topic).queue_of(queue_id)
        return target.queue != NULL

    cdef bint find_due(self, Plain *record, Draft *draft, Target *target) noexcept:
        """Find the queue that a waiting record names as its own; return whether it is known and there."""
        cdef Text topic, number
        cdef Span digits
        cdef int64_t queue_id
        if not value_in(&record.properties, b"REAL_TOPIC\x01", 11, &topic):
            return False
        if not value_in(&record.properties, b"REAL_QID\x01", 9, &number):
            return False
        digits.at, digits.length, digits.is_escaped = number.at, number.length, False
        if not read_number(&digits, 0, QUEUE_ID_MAX, &queue_id):
            return False
        draft.queue_id = <int32_t> queue_id
        return self.find(topic.at, topic.length, queue_id, target)


cdef class DuePlan(Plan):
    """Plans messages that are due, with one write for many."""

    cdef Again _again

    def __init__(self, *, Py_ssize_t body_bytes_max, **_others):
        self._again = Again(body_bytes_max=body_bytes_max)

    def learn(self, bytes topic not None, Py_ssize_t queue_id, QueueTail queue not None):
        """Plan messages that belong in this queue from now on."""
        self.clear()
        self._again.learn(topic, queue_id, queue)

    def forget_all(self):
        """Leave all messages to Python, until their queues are learnt again."""
        self.clear()
        self._again.forget_all()

    @property
    def topic_count(self):
        """The number of known topics."""
        return self._again.topic_count

    def plan_due(
        self,
        positions,
        *,
        log not None,
        bytes timed_topic,
        int64_t now_ms,
        int64_t log_end,
        int64_t log_room,
        int64_t index_room,
    ):
        """Plan the messages that wait at some positions of the log; return how many, from the first on.

        The positions are an array of int64. With a `timed_topic` the messages must be of it; each is stored
        with the times of its wait, and names the record that waited.
        """
        cdef Py_buffer view
        cdef Py_ssize_t i
        cdef int64_t position
        self.clear()
        self.begin(now_ms, b"", log_end, log_room, index_room)
        self._again._views.begin(log)
        PyObject_GetBuffer(positions, &view, PyBUF_SIMPLE)
        try:
            for i in range(view.len // <Py_ssize_t> sizeof(int64_t)):
                memcpy(&position, <const uint8_t *> view.buf + i * sizeof(int64_t), sizeof(int64_t))
                if self._records.used >= PLAN_BYTES_MAX or not self._plan_one(position, timed_topic):
                    break
        finally:
            PyBuffer_Release(&view)
            self._again._views.release()
        return self.message_count

    @staticmethod
    def positions_due(entries not None, int64_t now_ms, int64_t due_ms_max):
        """Return where the messages are that are due, by the entries of their queue: the bytes of an array of int64.

        They are taken up to the first that is due later; one that is due behind `due_ms_max` is due now, too.
        """
        cdef Py_buffer view
        cdef const uint8_t *at
        cdef Py_ssize_t i, count = 0
        cdef int64_t due_ms, position
        cdef bytes made
        PyObject_GetBuffer(entries, &view, PyBUF_SIMPLE)
        try:
            at = <const uint8_t *> view.buf
            made = PyBytes_FromStringAndSize(NULL, view.len // QUEUE_ENTRY_BYTES * sizeof(int64_t))
            for i in range(view.len // QUEUE_ENTRY_BYTES):
                due_ms = load64(at + 12)
                if now_ms < due_ms <= due_ms_max:
                    break
                position = load64(at)
                memcpy(PyBytes_AS_STRING(made) + count * sizeof(int64_t), &position, sizeof(int64_t))
                count += 1
                at += QUEUE_ENTRY_BYTES
        finally:
            PyBuffer_Release(&view)
        return made[:count * sizeof(int64_t)]

    @property
    def positions(self):
        """The places of the planned records in the log: the bytes of an array of int64."""
        cdef bytes made = PyBytes_FromStringAndSize(NULL, self.message_count * sizeof(int64_t))
        cdef int64_t *at = <int64_t *> PyBytes_AS_STRING(made)
        cdef Entry *entry = <Entry *> self._entries.bytes
        cdef Py_ssize_t i
        for i in range(self.message_count):
            at[i] = entry[i].position
        return made

    cdef bint _plan_one(self, int64_t position, bytes timed_topic) except -1:
        cdef Plain record
        cdef Draft draft
        cdef Target target
        cdef uint8_t times[TIMES_BYTES_MAX]
        if not self._again.begin_draft(position, &record, &draft) or not _has_entry(draft.sys_flag):
            return False
        if not self._again.find_due(&record, &draft, &target):
            return False
        if timed_topic is not None:
            if not is_equal(
                &record.topic, <const uint8_t *> PyBytes_AS_STRING(timed_topic), PyBytes_GET_SIZE(timed_topic)
            ):
                return False
            # One more than the position: see `stored_again.py`.
            draft.prepared_position = position + 1
            _add_times(&record, &draft, times, self._now_ms)
        return self.add_from(
            &draft, <Topic> target.topic, target.queue, record.head + BORN_HOST_AT, record.head + STORE_HOST_AT
        )


cdef inline bint _has_entry(int32_t sys_flag) noexcept nogil:
    return sys_flag & TRANSACTION_BITS != PREPARED and sys_flag & TRANSACTION_BITS != ROLLED_BACK


cdef void _add_times(Plain *record, Draft *draft, uint8_t *text, int64_t now_ms) noexcept:
    """Add to a draft when its message began to wait and when that ended, if there is room: they tell, and no more."""
    cdef uint8_t *at = copy(text, b"TIMER_ENQUEUE_MS\x01", 17)
    cdef const uint8_t *behind = record.properties.at + record.properties.length
    at = write_decimal(at, load64(record.head + STORED_AT_AT))
    at = copy(at, b"\x02TIMER_DEQUEUE_MS\x01", 18)
    at = write_decimal(at, now_ms)
    draft.is_parted = record.properties.length > 0 and (behind - 1)[0] != PAIR_END
    if record.properties.length + draft.is_parted + (at - text) > PROPERTIES_BYTES_MAX:
        draft.is_parted = False
        return
    draft.more_properties.at, draft.more_properties.length = text, at - text
