"""Messages for clients of gRPC: from the bytes of popped records to the bytes of a ReceiveMessage's stream.

Each message leaves as gRPC frames it: a zero, four bytes of length, and a ReceiveMessageResponse with the
message as its field 2. `pyromq.wire.grpc.shown_messages` is the same in Python, and says which field is what.
What is plain is written here. Left to Python are records that are not whole, not of version 1 or with IPv6 hosts;
bodies that are compressed; times before 1970; properties that are no UTF-8, are there twice, or are too many.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcmp, memset

from pyromq._kernel.codec.bigend cimport load32, load64, store32, write_decimal
from pyromq._kernel.codec.blocks cimport Block, copy, need
from pyromq._kernel.codec.layout cimport (
    BORN_AT_AT,
    BORN_HOST_AT,
    COMPRESSED,
    POSITION_AT,
    QUEUE_ID_AT,
    QUEUE_OFFSET_AT,
    RECONSUME_TIMES_AT,
    STORE_HOST_AT,
    STORED_AT_AT,
    Plain,
    Text,
    next_pair,
    next_part,
    read_plain,
)

cdef extern from "Python.h":
    PyObject *PyUnicode_DecodeUTF8(const char *text, Py_ssize_t length, const char *errors)
    void Py_DECREF(PyObject *object)
    void PyErr_Clear()

cdef extern from "../codec/md5.h" nogil:
    enum:
        PYROMQ_MD5_DIGEST
        PYROMQ_MD5_LANES
    void pyromq_md5(const uint8_t *data, size_t length, uint8_t *digest)
    void pyromq_md5_eight(const uint8_t **data, size_t length, uint8_t (*digests)[PYROMQ_MD5_DIGEST])

cdef enum:
    #: What is hidden and nothing else, and the names that have a field; the order is that of `FIELDS`.
    HIDDEN = 0
    TAGS = 1
    KEYS = 2
    UNIQ_KEY = 3
    TRAN_MSG = 4
    DELAY = 5
    TIMER_DELIVER_MS = 6
    TIMER_DELAY_SEC = 7
    SHARDING_KEY = 8
    TRACE_CONTEXT = 9
    DLQ_ORIGIN_TOPIC = 10
    DLQ_ORIGIN_MESSAGE_ID = 11
    LITE_TOPIC = 12
    PRIORITY = 13
    BORN_HOST = 14
    FIELD_COUNT = 15
    #: A name of the application's.
    OWN = -1

    #: Twice as many places as names, and more.
    PLACES = 256
    NAMES_MAX = 128
    #: The application's properties of one message; each is compared with those before it.
    OWN_MAX = 32

    TYPE_NORMAL = 1
    TYPE_FIFO = 2
    TYPE_DELAY = 3
    TYPE_TRANSACTION = 4
    TYPE_LITE = 5
    TYPE_PRIORITY = 6

    #: The prefix of a message of gRPC: not compressed, and its length.
    PREFIX_BYTES = 5
    #: Everything of fixed size in the system properties, and the heads and lengths of the texts.
    SYSTEM_BYTES_MAX = 512
    HANDLE_NUMBERS_MAX = 48
    HOST_CHARACTERS_MAX = 32

FIELDS = (
    "", "TAGS", "KEYS", "UNIQ_KEY", "TRAN_MSG", "DELAY", "TIMER_DELIVER_MS", "TIMER_DELAY_SEC", "__SHARDINGKEY",
    "TRACE_CONTEXT", "DLQ_ORIGIN_TOPIC", "DLQ_ORIGIN_MESSAGE_ID", "__LITE_TOPIC", "_SYS_MSG_PRIORITY_", "__BORNHOST",
)
cdef const char *HEX = b"0123456789ABCDEF"


cdef struct Name:
    Text text
    int field


cdef struct Shown:
    #: The values of the properties that have a field; a length of zero: not there.
    Text fields[FIELD_COUNT]
    Text own_names[OWN_MAX]
    Text own_values[OWN_MAX]
    Py_ssize_t own_count


cdef inline uint8_t *put_varint(uint8_t *at, uint64_t number) noexcept nogil:
    while number >= 0x80:
        at[0] = <uint8_t> (number | 0x80)
        at += 1
        number >>= 7
    at[0] = <uint8_t> number
    return at + 1


cdef inline Py_ssize_t varint_bytes(uint64_t number) noexcept nogil:
    cdef Py_ssize_t count = 1
    while number >= 0x80:
        number >>= 7
        count += 1
    return count


cdef inline uint8_t *put_text(uint8_t *at, int head, const Text *text) noexcept nogil:
    """Write a field with one or two bytes of head; nothing for an empty text."""
    if not text.length:
        return at
    if head > 0xff:
        at[0] = <uint8_t> (head >> 8)
        at += 1
    at[0] = <uint8_t> head
    return copy(put_varint(at + 1, text.length), text.at, text.length)


cdef inline uint8_t *put_time(uint8_t *at, uint8_t head, int64_t at_ms) noexcept nogil:
    """Write a field that is a `Timestamp`; the time is not before 1970."""
    cdef uint8_t content[24]
    cdef uint8_t *end = content
    if at_ms >= 1000:
        end[0] = 0x08
        end = put_varint(end + 1, at_ms // 1000)
    if at_ms % 1000:
        end[0] = 0x10
        end = put_varint(end + 1, at_ms % 1000 * 1000000)
    at[0], at[1] = head, <uint8_t> (end - content)
    return copy(at + 2, content, end - content)


cdef inline uint8_t *put_address(uint8_t *at, const uint8_t *host) noexcept nogil:
    """Write an IPv4 address."""
    cdef int i
    for i in range(4):
        if i:
            at[0] = c'.'
            at += 1
        at = write_decimal(at, host[i])
    return at


cdef inline uint8_t *put_host(uint8_t *at, uint8_t head, const uint8_t *host, bint with_port) noexcept nogil:
    cdef uint8_t *end = put_address(at + 2, host)
    if with_port:
        end[0] = c':'
        end = write_decimal(end + 1, load32(host + 4))
    at[0], at[1] = head, <uint8_t> (end - at - 2)
    return end


cdef inline uint8_t *put_hex(uint8_t *at, const uint8_t *bytes_, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(count):
        at[2 * i] = HEX[bytes_[i] >> 4]
        at[2 * i + 1] = HEX[bytes_[i] & 15]
    return at + 2 * count


cdef inline int64_t whole_number(const Text *text, int64_t at_most) noexcept nogil:
    """Return the number that a text is, of decimal digits only; −1 for what is none, or is too large."""
    cdef uint64_t number = 0
    cdef Py_ssize_t i
    if not 0 < text.length <= 19:
        return -1
    for i in range(text.length):
        if not c'0' <= text.at[i] <= c'9':
            return -1
        number = number * 10 + (text.at[i] - c'0')
    return <int64_t> number if number <= <uint64_t> at_most else -1


cdef inline bint is_same(const Text *one, const Text *other) noexcept nogil:
    return one.length == other.length and memcmp(one.at, other.at, one.length) == 0


cdef inline int message_type(const Shown *shown) noexcept nogil:
    cdef const Text *transaction = &shown.fields[TRAN_MSG]
    if transaction.length == 4 and memcmp(transaction.at, <const char *> b"true", 4) == 0:
        return TYPE_TRANSACTION
    if (
        shown.fields[DELAY].length
        or shown.fields[TIMER_DELIVER_MS].length
        or shown.fields[TIMER_DELAY_SEC].length
    ):
        return TYPE_DELAY
    if shown.fields[SHARDING_KEY].length:
        return TYPE_FIFO
    if shown.fields[PRIORITY].length:
        return TYPE_PRIORITY
    return TYPE_LITE if shown.fields[LITE_TOPIC].length else TYPE_NORMAL


cdef bint is_utf8(const Text *text):
    """Return whether bytes are UTF-8 that Python takes; most are ASCII."""
    cdef Py_ssize_t i
    cdef uint8_t seen = 0
    cdef PyObject *decoded
    for i in range(text.length):
        seen |= text.at[i]
    if seen < 0x80:
        return True
    decoded = PyUnicode_DecodeUTF8(<const char *> text.at, text.length, NULL)
    if decoded == NULL:
        PyErr_Clear()
        return False
    Py_DECREF(decoded)
    return True


cdef class ShownRecords:
    """Writes records as messages; `hidden` are the names of properties that no application sees."""

    cdef Block _out
    #: The digests of the bodies of the next records, and of how many.
    cdef uint8_t _digests[PYROMQ_MD5_LANES][PYROMQ_MD5_DIGEST]
    cdef Py_ssize_t _digest_count
    cdef Name _names[PLACES]
    #: Keeps the bytes of the names.
    cdef list _kept

    def __cinit__(self, hidden):
        memset(&self._out, 0, sizeof(Block))
        memset(self._names, 0, sizeof(self._names))
        self._kept = [name.encode("ascii") for name in hidden]
        assert len(self._kept) <= NAMES_MAX
        for name in self._kept:
            self._add(name, FIELDS.index(name.decode()) if name.decode() in FIELDS else HIDDEN)

    def __dealloc__(self):
        free(self._out.bytes)

    def write(
        self,
        bytes body not None,
        Py_ssize_t at,
        Py_ssize_t first,
        sizes not None,
        offsets not None,
        positions not None,
        attempts not None,
        bytes handle_head not None,
        bytes topic not None,
        Py_ssize_t bytes_max,
    ):
        """Write the records from number `first` on, which begins at byte `at`; return the frames and their count.

        It stops at the first record that is not plain, and when there are `bytes_max` bytes.
        """
        cdef const uint8_t *records = <const uint8_t *> PyBytes_AS_STRING(body)
        cdef Py_ssize_t end = PyBytes_GET_SIZE(body)
        cdef Py_ssize_t count = len(sizes)
        cdef Py_ssize_t number = first
        cdef Py_ssize_t size
        cdef int64_t offset, position, attempt
        self._out.used = self._digest_count = 0
        while number < count and self._out.used < bytes_max:
            size = sizes[number]
            offset, position, attempt = offsets[number], positions[number], attempts[number]
            if not 0 < size <= end - at:
                break
            if not self._digest_count:
                self._look_ahead(records + at, records + end, size)
            if not self._write_one(records + at, size, offset, position, attempt, handle_head, topic):
                break
            self._digest_count -= self._digest_count > 0
            at += size
            number += 1
        return PyBytes_FromStringAndSize(<char *> self._out.bytes, self._out.used), number - first

    cdef void _look_ahead(self, const uint8_t *at, const uint8_t *end, Py_ssize_t size) noexcept:
        """Digest the bodies of the next records together, if they are alike."""
        cdef const uint8_t *bodies[PYROMQ_MD5_LANES]
        cdef Plain record
        cdef Py_ssize_t length = 0
        cdef int lane
        if end - at < PYROMQ_MD5_LANES * size:
            return
        for lane in range(PYROMQ_MD5_LANES):
            if not read_plain(at, end - at, &record) or (lane and record.body.length != length):
                return
            bodies[lane] = record.body.at
            length = record.body.length
            at += record.size
        pyromq_md5_eight(bodies, length, self._digests)
        self._digest_count = PYROMQ_MD5_LANES

    cdef void _add(self, bytes name, int field):
        cdef Name known
        known.text.at = <const uint8_t *> PyBytes_AS_STRING(name)
        known.text.length = PyBytes_GET_SIZE(name)
        known.field = field
        self._names[self._place(&known.text)] = known

    cdef int _place(self, const Text *name) noexcept nogil:
        """Return the place of a name, or the free one that it would have."""
        cdef int place = <int> (
            (name.length * 31 + name.at[0] * 7 + name.at[name.length - 1] * 3 + name.at[name.length // 2])
            % PLACES
        )
        while self._names[place].text.length and not is_same(&self._names[place].text, name):
            place = (place + 1) % PLACES
        return place

    cdef bint _read(self, const Plain *record, Shown *shown):
        """Sort the properties of a record; return whether they are plain."""
        cdef Text left = record.properties
        cdef Text name, value
        cdef const Name *known
        cdef Py_ssize_t i
        if not is_utf8(&record.properties):
            return False
        memset(shown.fields, 0, sizeof(shown.fields))
        shown.own_count = 0
        while next_pair(&left, &name, &value):
            known = &self._names[self._place(&name)]
            if known.text.length:
                if known.field == HIDDEN:
                    continue
                if shown.fields[known.field].length:
                    return False
                shown.fields[known.field] = value
                continue
            if shown.own_count == OWN_MAX:
                return False
            for i in range(shown.own_count):
                if is_same(&shown.own_names[i], &name):
                    return False
            shown.own_names[shown.own_count], shown.own_values[shown.own_count] = name, value
            shown.own_count += 1
        return True

    cdef bint _write_one(
        self,
        const uint8_t *data,
        Py_ssize_t size,
        int64_t offset,
        int64_t position,
        int64_t attempt,
        bytes handle_head,
        bytes topic,
    ) except -1:
        """Write one record behind the others; return whether it is plain, and nothing is written if not."""
        cdef Plain record
        cdef Shown shown
        cdef Py_ssize_t own_bytes, body_bytes, system_bytes, message_bytes
        cdef Py_ssize_t start = self._out.used
        cdef uint8_t *at
        cdef uint8_t *system
        cdef uint8_t own_digest[PYROMQ_MD5_DIGEST]
        cdef const uint8_t *digest
        if not read_plain(data, size, &record) or record.size != size or record.flags & COMPRESSED:
            return False
        if load64(data + BORN_AT_AT) < 0 or load64(data + STORED_AT_AT) < 0 or attempt <= 0:
            return False
        if load32(data + QUEUE_ID_AT) < 0 or load64(data + QUEUE_OFFSET_AT) < 0:
            return False
        if not self._read(&record, &shown):
            return False
        # The system properties are written behind the place of all that stands before them, and moved there.
        need(
            &self._out,
            4 * (record.properties.length + SYSTEM_BYTES_MAX)
            + 2 * (PyBytes_GET_SIZE(handle_head) + HANDLE_NUMBERS_MAX)
            + PyBytes_GET_SIZE(topic)
            + record.body.length,
        )
        own_bytes = _own_bytes(&shown)
        system = self._out.bytes + start + own_bytes + PyBytes_GET_SIZE(topic) + 4 * PREFIX_BYTES + 16
        if self._digest_count:
            digest = self._digests[PYROMQ_MD5_LANES - self._digest_count]
        else:
            pyromq_md5(record.body.at, record.body.length, own_digest)
            digest = own_digest
        system_bytes = _put_system(system, &record, &shown, digest, handle_head, offset, position, attempt) - system
        body_bytes = record.body.length
        message_bytes = PyBytes_GET_SIZE(topic) + own_bytes + 1 + varint_bytes(system_bytes) + system_bytes
        if body_bytes:
            message_bytes += 1 + varint_bytes(body_bytes) + body_bytes
        at = self._out.bytes + start
        at[0] = 0
        store32(at + 1, <int32_t> (1 + varint_bytes(message_bytes) + message_bytes))
        at[PREFIX_BYTES] = 0x12
        at = put_varint(at + PREFIX_BYTES + 1, message_bytes)
        at = copy(at, PyBytes_AS_STRING(topic), PyBytes_GET_SIZE(topic))
        at = _put_own(at, &shown)
        at[0] = 0x1a
        at = _move(put_varint(at + 1, system_bytes), system, system_bytes)
        if body_bytes:
            at[0] = 0x22
            at = copy(put_varint(at + 1, body_bytes), record.body.at, body_bytes)
        self._out.used = at - self._out.bytes
        return True


cdef extern from "string.h" nogil:
    void *memmove(void *to, const void *source, size_t count)


cdef inline uint8_t *_move(uint8_t *at, const uint8_t *source, Py_ssize_t length) noexcept nogil:
    """Copy bytes that may overlap, and return the byte behind them."""
    memmove(at, source, length)
    return at + length


cdef Py_ssize_t _entry_bytes(const Shown *shown, Py_ssize_t i) noexcept nogil:
    cdef Py_ssize_t name = shown.own_names[i].length
    cdef Py_ssize_t value = shown.own_values[i].length
    return 2 + varint_bytes(name) + name + varint_bytes(value) + value


cdef Py_ssize_t _own_bytes(const Shown *shown) noexcept nogil:
    """Return how many bytes the application's properties take."""
    cdef Py_ssize_t i, entry, total = 0
    for i in range(shown.own_count):
        entry = _entry_bytes(shown, i)
        total += 1 + varint_bytes(entry) + entry
    return total


cdef uint8_t *_put_own(uint8_t *at, const Shown *shown) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(shown.own_count):
        at[0] = 0x12
        at = put_varint(at + 1, _entry_bytes(shown, i))
        at = put_text(at, 0x0a, &shown.own_names[i])
        at = put_text(at, 0x12, &shown.own_values[i])
    return at


cdef uint8_t *_put_system(
    uint8_t *at,
    const Plain *record,
    const Shown *shown,
    const uint8_t *digest,
    bytes handle_head,
    int64_t offset,
    int64_t position,
    int64_t attempt,
):
    """Write the system properties, in the order of their numbers, and return the byte behind them."""
    cdef const uint8_t *head = record.head
    cdef Text left = shown.fields[KEYS]
    cdef Text key
    cdef int64_t deliver_ms
    at = put_text(at, 0x0a, &shown.fields[TAGS])
    while next_part(&left, c' ', &key):
        at = put_text(at, 0x12, &key)
    at = _put_id_and_digest(at, record, shown, digest)
    at[0], at[1], at[2], at[3] = 0x28, 1, 0x30, <uint8_t> message_type(shown)
    at = put_time(at + 4, 0x3a, load64(head + BORN_AT_AT))
    if shown.fields[BORN_HOST].length:
        at = put_text(at, 0x42, &shown.fields[BORN_HOST])
    else:
        at = put_host(at, 0x42, head + BORN_HOST_AT, False)
    at = put_time(at, 0x4a, load64(head + STORED_AT_AT))
    at = put_host(at, 0x52, head + STORE_HOST_AT, True)
    deliver_ms = whole_number(&shown.fields[TIMER_DELIVER_MS], <int64_t> 0x7fffffffffffffff)
    if deliver_ms >= 0:
        at = put_time(at, 0x5a, deliver_ms)
    at = _put_handle(at, handle_head, offset, position)
    if load32(head + QUEUE_ID_AT):
        at[0] = 0x68
        at = put_varint(at + 1, load32(head + QUEUE_ID_AT))
    at[0] = 0x70
    at = put_varint(at + 1, load64(head + QUEUE_OFFSET_AT))
    at[0], at[1] = 0x80, 0x01
    at = put_varint(at + 2, attempt)
    return _put_rare(at, shown)


cdef uint8_t *_put_id_and_digest(
    uint8_t *at, const Plain *record, const Shown *shown, const uint8_t *digest
) noexcept nogil:
    if shown.fields[UNIQ_KEY].length:
        at = put_text(at, 0x1a, &shown.fields[UNIQ_KEY])
    else:
        # The store host and the position, as upper-case hexadecimal.
        at[0], at[1] = 0x1a, 32
        at = put_hex(put_hex(at + 2, record.head + STORE_HOST_AT, 8), record.head + POSITION_AT, 8)
    at[0], at[1], at[2], at[3], at[4], at[5] = 0x22, 0x24, 0x08, 0x02, 0x12, 0x20
    return put_hex(at + 6, digest, PYROMQ_MD5_DIGEST)


cdef uint8_t *_put_handle(uint8_t *at, bytes handle_head, int64_t offset, int64_t position):
    cdef uint8_t numbers[HANDLE_NUMBERS_MAX]
    cdef uint8_t *end = write_decimal(numbers, offset)
    end[0] = c' '
    end = write_decimal(end + 1, position)
    at[0] = 0x62
    at = put_varint(at + 1, PyBytes_GET_SIZE(handle_head) + (end - numbers))
    at = copy(at, PyBytes_AS_STRING(handle_head), PyBytes_GET_SIZE(handle_head))
    return copy(at, numbers, end - numbers)


cdef uint8_t *_put_rare(uint8_t *at, const Shown *shown) noexcept nogil:
    """Write the fields behind the delivery attempt, which most messages do not have."""
    cdef const Text *topic = &shown.fields[DLQ_ORIGIN_TOPIC]
    cdef const Text *origin = &shown.fields[DLQ_ORIGIN_MESSAGE_ID]
    cdef int64_t priority = whole_number(&shown.fields[PRIORITY], 0x7fffffff)
    at = put_text(at, 0x8a01, &shown.fields[SHARDING_KEY])
    at = put_text(at, 0x9201, &shown.fields[TRACE_CONTEXT])
    if topic.length and origin.length:
        at[0], at[1] = 0xa2, 0x01
        at = put_varint(
            at + 2,
            2 + varint_bytes(topic.length) + topic.length + varint_bytes(origin.length) + origin.length,
        )
        at = put_text(put_text(at, 0x0a, topic), 0x12, origin)
    at = put_text(at, 0xaa01, &shown.fields[LITE_TOPIC])
    if priority >= 0:
        at[0], at[1] = 0xb0, 0x01
        at = put_varint(at + 2, priority)
    return at
