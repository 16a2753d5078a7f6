"""Messages that consumers send back: the record is read in the log, and planned again to wait for its next try.

    CONSUMER_SEND_MSG_BACK ──► the record, its properties and those of a retry ──► a message of the delay level

Python makes groups known, with their retry topics, and the queues of the levels. Dead letters, unknown groups,
properties that could send the message elsewhere, and every refusal are left to it:
`pyromq.broker.requests.handlers.retry_handlers` and `pyromq.broker.kinds.delay` are the same there.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free

from pyromq._kernel.codec.bigend cimport write_decimal
from pyromq._kernel.codec.blocks cimport Block, need
from pyromq._kernel.codec.frames cimport Frame, Span, find_field, read_bool, read_number
from pyromq._kernel.codec.layout cimport BORN_HOST_AT, POSITION_AT, STORE_HOST_AT, Plain
from pyromq._kernel.requests.again_frames cimport AgainFrames, is_plainly_written
from pyromq._kernel.storage.diversions cimport NUMBER_BYTES_MAX, Diversion, Waiting
from pyromq._kernel.storage.drafts cimport Draft, is_text, note_pairs
from pyromq._kernel.storage.pairs cimport Pair, count_of, join, put_in_order, put_pair, reads, split, unite
from pyromq._kernel.storage.plans cimport Plan

cdef enum:
    TRANSACTION_BITS = 0xC
    COMMIT = 0x8
    INT32_MAX = 2147483647
    #: Longer names and ids are Python's, whose limits are higher.
    WORD_BYTES_MAX = 255
    HOST_BYTES = 8
    ID_BYTES = 16
    #: The names of the properties of a retry, and their values, the names of topics left out.
    MORE_BYTES_MAX = 256

cdef const char *HEX = b"0123456789ABCDEF"


cdef struct Returned:
    #: What the fields of a send-back say; -1 is no limit of its own.
    Span *group
    int64_t position, level, times_max


cdef class RetryGroup:
    """A group whose messages are retried."""

    cdef bytes topic
    cdef int32_t queue_count, next_queue
    cdef int64_t times_max


cdef class SendBacks(AgainFrames):
    """Plans send-backs. `look` returns the log, or None when nothing that was learnt holds any more."""

    cdef object _look
    #: What sends a message to the queue of its delay level.
    cdef Diversion _delayed
    cdef dict _groups
    #: The level of a message that comes back for the first time.
    cdef int64_t _first_level
    #: Properties that a plain message does not have.
    cdef tuple _excludes
    #: Clients before this version do not mean the limit that they give.
    cdef int32_t _max_times_from
    cdef bint _is_looked, _is_open
    cdef Block _pairs, _text

    def __init__(
        self,
        look not None,
        Diversion delayed not None,
        *,
        int64_t first_level,
        tuple excludes not None,
        int32_t max_times_from,
        **others,
    ):
        AgainFrames.__init__(self, **others)
        self._look = look
        self._delayed = delayed
        self._first_level = first_level
        self._excludes = excludes
        self._max_times_from = max_times_from
        self._groups = {}

    def __dealloc__(self):
        free(self._pairs.bytes)
        free(self._text.bytes)

    def learn_group(
        self, bytes group not None, bytes retry_topic not None, *, int32_t queue_count, int32_t first_queue,
        int64_t times_max,
    ):
        """Plan what this group sends back from now on; its retry queues have their turns, from the first on."""
        cdef RetryGroup known = RetryGroup()
        if queue_count <= 0 or not 0 <= first_queue < queue_count:
            raise ValueError(f"queue {first_queue} of {queue_count}")
        known.topic = retry_topic
        known.queue_count = queue_count
        known.next_queue = first_queue
        known.times_max = times_max
        self._groups[group] = known

    def forget_all(self):
        """Leave all send-backs to Python, until their groups are learnt again."""
        self._groups.clear()

    @property
    def group_count(self):
        """The number of known groups."""
        return len(self._groups)

    cdef int begin_plan(self) except -1:
        self._is_looked = self._is_open = False
        return 0

    cdef bint plan_frame(self, Plan plan, Frame *frame) except -1:
        cdef Returned returned
        cdef RetryGroup group
        cdef Plain record
        cdef Draft draft
        cdef Waiting waiting
        if not _read_fields(frame, &returned) or not self._look_once():
            return False
        group = self._groups.get(PyBytes_FromStringAndSize(<char *> returned.group.at, returned.group.length))
        if group is None or not self.begin_draft(returned.position, &record, &draft):
            return False
        if returned.times_max < 0 or frame.version < self._max_times_from:
            returned.times_max = group.times_max
        # With more tries it is a dead letter.
        if not 0 <= draft.reconsume_times < min(returned.times_max, <int64_t> INT32_MAX):
            return False
        if draft.sys_flag & TRANSACTION_BITS != 0 and draft.sys_flag & TRANSACTION_BITS != COMMIT:
            return False
        if not self._find_level(plan, &returned, draft.reconsume_times, &waiting):
            return False
        if not self._write_properties(group, &record, &draft, &waiting):
            return False
        draft.reconsume_times += 1
        draft.queue_id = waiting.queue_id
        if not plan.add_from(
            &draft, self._delayed.topic, waiting.queue, record.head + BORN_HOST_AT, record.head + STORE_HOST_AT
        ):
            return False
        group.next_queue = (group.next_queue + 1) % group.queue_count
        return True

    cdef bint _look_once(self) except -1:
        """Find out, once for each plan, whether what was learnt still holds."""
        if not self._is_looked:
            self._is_looked = True
            log = self._look() if self._groups else None
            if log is not None:
                self._views.begin(log)
                self._is_open = True
        return self._is_open

    cdef bint _find_level(self, Plan plan, Returned *returned, int32_t tried, Waiting *waiting) noexcept:
        """Find the queue of the level that a message waits in; return whether it is known."""
        cdef uint8_t digits[NUMBER_BYTES_MAX]
        cdef Span level
        cdef int64_t number = returned.level if returned.level else self._first_level + tried
        level.at, level.is_escaped = digits, False
        level.length = write_decimal(digits, number) - digits
        return self._delayed.read(&level, plan._now_ms, waiting)

    cdef bint _write_properties(self, RetryGroup group, Plain *record, Draft *draft, Waiting *waiting) except -1:
        """Write the properties of the next try, in the order in which Python comes to them."""
        cdef uint8_t message_id[2 * ID_BYTES]
        cdef uint8_t level[NUMBER_BYTES_MAX]
        cdef const uint8_t *topic = <const uint8_t *> PyBytes_AS_STRING(group.topic)
        cdef Py_ssize_t topic_length = PyBytes_GET_SIZE(group.topic)
        self._pairs.used = 0
        split(record.properties.at, record.properties.at + record.properties.length, &self._pairs)
        # A message of a batch has WAIT twice: its own, and the batch's.
        unite(&self._pairs)
        if not is_text(record.topic.at, record.topic.length) or self._is_excluded():
            return False
        _write_id(message_id, record)
        self._set(b"RETRY_TOPIC", 11, record.topic.at, record.topic.length, False)
        self._set(b"ORIGIN_MESSAGE_ID", 17, message_id, 2 * ID_BYTES, False)
        self._set(b"WAIT", 4, <const uint8_t *> b"false", 5, True)
        self._set(b"DELAY", 5, level, write_decimal(level, waiting.queue_id + 1) - level, True)
        self._set(b"REAL_TOPIC", 10, topic, topic_length, True)
        self._set(
            b"REAL_QID", 8, waiting.own_queue_id,
            write_decimal(waiting.own_queue_id, group.next_queue) - waiting.own_queue_id, True,
        )
        if not put_in_order(&self._pairs):
            return False
        self._text.used = 0
        need(&self._text, record.properties.length + record.topic.length + topic_length + MORE_BYTES_MAX)
        draft.properties.at = self._text.bytes
        draft.properties.length = join(&self._pairs, self._text.bytes, True)
        note_pairs(draft, &self._pairs)
        draft.wanted.due_ms = waiting.due_ms
        return True

    cdef bint _is_excluded(self) noexcept:
        """Whether one of the properties could send the message elsewhere."""
        cdef Pair *pairs = <Pair *> self._pairs.bytes
        cdef Py_ssize_t i
        cdef bytes name
        for i in range(count_of(&self._pairs)):
            for name in self._excludes:
                if reads(&pairs[i].name, PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name)):
                    return True
        return False

    cdef int _set(
        self, const char *name, Py_ssize_t length, const uint8_t *value, Py_ssize_t value_length, bint is_replaced
    ) except -1:
        """Set a property in its place, or behind the others; one that is there stays unless it `is_replaced`."""
        cdef Pair *pairs = <Pair *> self._pairs.bytes
        cdef Py_ssize_t i
        for i in range(count_of(&self._pairs)):
            if reads(&pairs[i].name, name, length):
                if is_replaced:
                    pairs[i].value.at, pairs[i].value.length = value, value_length
                return 0
        return put_pair(&self._pairs, <const uint8_t *> name, length, value, value_length)


cdef void _write_id(uint8_t *out, Plain *record) noexcept nogil:
    """Write the id of a message by its place: the host of its broker, and its position."""
    cdef const uint8_t *at
    cdef int i
    for i in range(ID_BYTES):
        at = record.head + (STORE_HOST_AT + i if i < HOST_BYTES else POSITION_AT + i - HOST_BYTES)
        out[2 * i] = HEX[at[0] >> 4]
        out[2 * i + 1] = HEX[at[0] & 15]


cdef bint _read_fields(Frame *frame, Returned *returned) noexcept nogil:
    """Read what a send-back asks for; return False when a field is not usual, or it is given up."""
    cdef bint ignored = False
    cdef Span *field
    if not is_plainly_written(frame):
        return False
    returned.group = find_field(frame, b"group", 5)
    if returned.group == NULL or returned.group.length > WORD_BYTES_MAX:
        return False
    field = find_field(frame, b"offset", 6)
    if field == NULL or not read_number(field, 0, 1 << 62, &returned.position):
        return False
    field = find_field(frame, b"delayLevel", 10)
    if field == NULL or not read_number(field, 0, INT32_MAX, &returned.level):
        return False
    returned.times_max = -1
    field = find_field(frame, b"maxReconsumeTimes", 17)
    if field != NULL and not read_number(field, 0, INT32_MAX, &returned.times_max):
        return False
    field = find_field(frame, b"unitMode", 8)
    if field != NULL and not read_bool(field, &ignored):
        return False
    field = find_field(frame, b"originMsgId", 11)
    if field != NULL and field.length > WORD_BYTES_MAX:
        return False
    field = find_field(frame, b"originTopic", 11)
    return field == NULL or field.length <= WORD_BYTES_MAX
