"""Ends of transactions: the half is read in the log, and the real message and the op message are planned.

    END_TRANSACTION ──► the half, its place and group compared, not decided yet ──► message, op message

A half counts as decided from its planning on, so that a second end within a plan stops it there. Its bit
is taken back when the plan is dropped. Unknown fates, halves that were stored again, and every refusal are left
to Python: `pyromq.broker.requests.handlers.transaction_handlers` and `pyromq.broker.kinds.half_messages` are the
same there.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free

from pyromq._kernel.codec.bigend cimport load64, write_decimal
from pyromq._kernel.codec.blocks cimport Block, need
from pyromq._kernel.codec.frames cimport Frame, Span, find_field, read_bool, read_number
from pyromq._kernel.codec.layout cimport BORN_AT_AT, BORN_HOST_AT, QUEUE_OFFSET_AT, STORE_HOST_AT, Plain, Text
from pyromq._kernel.requests.again_frames cimport AgainFrames, is_plainly_written
from pyromq._kernel.storage.again cimport Target, is_equal, value_in
from pyromq._kernel.storage.drafts cimport Draft
from pyromq._kernel.storage.known cimport Topic
from pyromq._kernel.storage.plans cimport Mark, Plan
from pyromq._kernel.storage.tails cimport QueueTail

cdef enum:
    TRANSACTION_BITS = 0xC
    COMMIT = 0x8
    ROLLBACK = 0xC
    HOST_BYTES = 8
    #: Longer names and ids are Python's, whose limits are higher.
    WORD_BYTES_MAX = 255
    NUMBER_CHARACTERS_MAX = 20


cdef struct Ending:
    #: What the fields of an end say.
    Span *group
    int64_t offset, position, fate


cdef class Ends(AgainFrames):
    """Plans ends of transactions.

    `look` says what the halves are: the log, a bit for each half that is decided, the offset from which on they
    are not all, and the newest copies of halves by their identity. None: no end is to be planned now.
    """

    cdef object _look
    cdef bytes _half_topic, _op_topic, _op_properties, _store_host
    #: Of this plan: whether the halves were looked at, and may be ended.
    cdef bint _is_looked, _is_open
    cdef bytearray _decided
    cdef int64_t _progress
    cdef dict _latest
    #: The half offsets that the planned op messages name, until they are taken.
    cdef Block _ended

    def __init__(
        self,
        look not None,
        *,
        bytes half_topic not None,
        bytes op_topic not None,
        bytes op_properties not None,
        bytes store_host not None,
        **others,
    ):
        if len(store_host) != HOST_BYTES:
            raise ValueError("the store's host is not an IPv4 one")
        AgainFrames.__init__(self, **others)
        self._look = look
        self._half_topic = half_topic
        self._op_topic = op_topic
        self._op_properties = op_properties
        self._store_host = store_host

    def __dealloc__(self):
        free(self._ended.bytes)

    def take_ended(self):
        """Return the half offsets that the op messages name which were planned: the bytes of an array of int64.

        From now on they are decided for good.
        """
        ended = PyBytes_FromStringAndSize(<char *> self._ended.bytes, self._ended.used)
        self._ended.used = 0
        return ended

    cdef int begin_plan(self) except -1:
        self._is_looked = self._is_open = False
        # Whoever did not drop a plan has its messages.
        self._ended.used = 0
        return 0

    cdef int drop_plan(self) except -1:
        cdef Py_ssize_t i
        for i in range(self._ended.used // <Py_ssize_t> sizeof(int64_t)):
            self._flip((<int64_t *> self._ended.bytes)[i])
        self._ended.used = 0
        return 0

    cdef bint plan_frame(self, Plan plan, Frame *frame) except -1:
        cdef Ending ending
        cdef Plain half
        cdef Draft draft
        cdef Target target
        cdef Mark mark = plan.mark()
        cdef int64_t first_offset = 0
        if not _read_fields(frame, &ending) or not self._look_once():
            return False
        if not self.begin_draft(ending.position, &half, &draft) or not self._is_meant(&half, &ending):
            return False
        if ending.fate == COMMIT:
            if not self.find_due(&half, &draft, &target):
                return False
            draft.sys_flag = draft.sys_flag & ~TRANSACTION_BITS | COMMIT
            draft.prepared_position = ending.position
            first_offset = (<QueueTail> target.queue).end + (<QueueTail> target.queue).planned
            if not plan.add_from(
                &draft, <Topic> target.topic, target.queue, half.head + BORN_HOST_AT, half.head + STORE_HOST_AT
            ):
                return False
        need(&self._ended, sizeof(int64_t))
        if not self._add_op(plan, ending.offset):
            if ending.fate == COMMIT:
                plan.undo(mark, target.queue, first_offset)
            return False
        (<int64_t *> (self._ended.bytes + self._ended.used))[0] = ending.offset
        self._ended.used += sizeof(int64_t)
        self._flip(ending.offset)
        return True

    cdef bint _look_once(self) except -1:
        """Find out, once for each plan, what the halves are; return whether they may be ended."""
        if not self._is_looked:
            self._is_looked = True
            looked = self._look()
            if looked is not None:
                log, self._decided, self._progress, self._latest = looked
                self._views.begin(log)
                self._is_open = True
        return self._is_open

    cdef bint _is_meant(self, Plain *half, Ending *ending) except -1:
        """Whether a record is the half that an end means, and is neither decided nor stored again."""
        cdef Text group, identity
        cdef int64_t bit
        if not is_equal(
            &half.topic, <const uint8_t *> PyBytes_AS_STRING(self._half_topic), PyBytes_GET_SIZE(self._half_topic)
        ):
            return False
        if not value_in(&half.properties, b"PGROUP\x01", 7, &group):
            return False
        if not is_equal(&group, ending.group.at, ending.group.length):
            return False
        if load64(half.head + QUEUE_OFFSET_AT) != ending.offset or ending.offset < self._progress:
            return False
        bit = ending.offset - self._base()
        if bit >> 3 >= PyByteArray_GET_SIZE(self._decided):
            return False
        if PyByteArray_AS_STRING(self._decided)[bit >> 3] & (1 << (bit & 7)):
            return False
        if self._latest and value_in(&half.properties, b"UNIQ_KEY\x01", 9, &identity):
            name = PyBytes_FromStringAndSize(<char *> identity.at, identity.length).decode()
            return f"{name} {load64(half.head + BORN_AT_AT)}" not in self._latest
        return True

    cdef bint _add_op(self, Plan plan, int64_t offset) except -1:
        """Plan the message that says that a half is decided; return False when it is Python's."""
        cdef uint8_t body[NUMBER_CHARACTERS_MAX]
        cdef Draft draft
        cdef Target target
        cdef const uint8_t *host = <const uint8_t *> PyBytes_AS_STRING(self._store_host)
        if not self.find(
            <const uint8_t *> PyBytes_AS_STRING(self._op_topic), PyBytes_GET_SIZE(self._op_topic), 0, &target
        ):
            return False
        draft.queue_id = draft.flag = draft.sys_flag = draft.reconsume_times = 0
        draft.born_at_ms = plan._now_ms
        draft.prepared_position = 0
        draft.body, draft.body_length = body, write_decimal(body, offset) - body
        draft.properties.at = <const uint8_t *> PyBytes_AS_STRING(self._op_properties)
        draft.properties.length = PyBytes_GET_SIZE(self._op_properties)
        draft.more_properties.at, draft.more_properties.length = draft.properties.at, 0
        draft.is_parted = draft.is_noted = False
        return plan.add_from(&draft, <Topic> target.topic, target.queue, host, host)

    cdef int64_t _base(self) noexcept:
        """Return the offset of the lowest bit: bits are dropped by whole bytes."""
        return self._progress - self._progress % 8

    cdef void _flip(self, int64_t offset) noexcept:
        """Mark a half as decided, or as not decided after all."""
        cdef int64_t bit = offset - self._base()
        if 0 <= bit >> 3 < PyByteArray_GET_SIZE(self._decided):
            PyByteArray_AS_STRING(self._decided)[bit >> 3] ^= 1 << (bit & 7)


cdef bint _read_fields(Frame *frame, Ending *ending) noexcept nogil:
    """Read what an end asks for; return False when a field is not usual."""
    cdef bint ignored = False
    cdef Span *field
    if not is_plainly_written(frame):
        return False
    ending.group = find_field(frame, b"producerGroup", 13)
    field = find_field(frame, b"msgId", 5)
    if ending.group == NULL or ending.group.length > WORD_BYTES_MAX or field == NULL or field.length > WORD_BYTES_MAX:
        return False
    if not _number(frame, b"tranStateTableOffset", 20, &ending.offset):
        return False
    if not _number(frame, b"commitLogOffset", 15, &ending.position):
        return False
    if not _number(frame, b"commitOrRollback", 16, &ending.fate):
        return False
    if ending.fate != COMMIT and ending.fate != ROLLBACK:
        return False
    field = find_field(frame, b"fromTransactionCheck", 20)
    if field != NULL and not read_bool(field, &ignored):
        return False
    field = find_field(frame, b"transactionId", 13)
    if field != NULL and field.length > WORD_BYTES_MAX:
        return False
    field = find_field(frame, b"topic", 5)
    return field == NULL or field.length <= WORD_BYTES_MAX


cdef inline bint _number(Frame *frame, const char *name, Py_ssize_t length, int64_t *number) noexcept nogil:
    cdef Span *field = find_field(frame, name, length)
    return field != NULL and read_number(field, 0, 1 << 62, number)
