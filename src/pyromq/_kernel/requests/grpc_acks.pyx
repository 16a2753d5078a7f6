"""AckMessage of gRPC clients: from the request's bytes to receipt handles, and to the response that all is well.

    AckMessageRequest   1 group, 2 topic: { 2 name }, 3 entries: { 1 message_id, 2 receipt_handle }
    AckMessageResponse  1 status, 2 entries: { 1 message_id, 2 receipt_handle, 3 status }

An entry of the response is that of the request with a status behind it. Only plain requests are read: names and
handles of printable ASCII, the fields in their order, handles of this broker with eight words or nine. Everything
else Python reads; `pyromq.broker.grpc.consuming.consume_acks` does the same, and `pyromq.wire.receipt_handle`
says what the words of a handle mean.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy

from pyromq._kernel.requests.grpc_request cimport Field, Text, is_plain, next_field

cdef enum:
    ENTRIES_MAX = 64
    WORDS_MIN = 8
    WORDS_MAX = 9
    #: Its digits fit 63 bits.
    NUMBER_BYTES_MAX = 18
    BROKER_WORD = 5
    INT32_MAX = 0x7fffffff
    MARK_MAX = 2
    #: The revive queue of messages that are popped in order.
    ORDERED = 999
    #: The length of OK below, with the head and length of the field.
    ENTRY_STATUS_BYTES = 10
    LENGTH_BYTES_MAX = 10

#: A `Status`: 08 20000, 12 "OK".
cdef const char *OK = b"\x08\xa0\x9c\x01\x12\x02OK"
cdef Py_ssize_t OK_BYTES = 8


cdef struct AckEntry:
    #: The whole entry, as it was sent.
    Text whole
    Text handle


cdef class AckHandle:
    """A receipt handle, with the face of `ReceiptHandle`."""

    cdef readonly int64_t start_offset, popped_at_ms, invisible_ms, revive_queue_id, mark, queue_id, offset
    cdef readonly int64_t position
    cdef readonly str broker_name

    @property
    def visible_at_ms(self):
        """The time from which on others may have the message."""
        return self.popped_at_ms + self.invisible_ms

    @property
    def is_fifo(self):
        """Whether the message was popped in order."""
        return self.revive_queue_id == ORDERED

    def real_topic(self, group, topic):
        """Return the topic that the record lies in."""
        if self.mark == 0:
            return topic
        from pyromq.wire.receipt_handle import real_topic_of

        return real_topic_of(group, topic, self.mark)


cdef bint take_number(const Text *word, int64_t *number) noexcept nogil:
    cdef Py_ssize_t i
    cdef uint64_t value = 0
    if not 0 < word.length <= NUMBER_BYTES_MAX:
        return False
    for i in range(word.length):
        if not c'0' <= word.at[i] <= c'9':
            return False
        value = value * 10 + (word.at[i] - c'0')
    number[0] = <int64_t> value
    return True


cdef AckHandle read_handle(const Text *text, bytes broker, str broker_name):
    """Return a handle; None for one that is not plain, or of another broker."""
    cdef int64_t numbers[WORDS_MAX]
    cdef const uint8_t *at = text.at
    cdef const uint8_t *end = at + text.length
    cdef const uint8_t *mark
    cdef Text word
    cdef AckHandle handle
    cdef int count = 0
    numbers[WORDS_MAX - 1] = 0
    while at <= end and count < WORDS_MAX:
        mark = <const uint8_t *> memchr(at, c' ', end - at)
        if mark == NULL:
            mark = end
        word.at, word.length = at, mark - at
        if count == BROKER_WORD:
            if word.length != PyBytes_GET_SIZE(broker) or memcmp(word.at, PyBytes_AS_STRING(broker), word.length):
                return None
            numbers[count] = 0
        elif not take_number(&word, &numbers[count]):
            return None
        at = mark + 1
        count += 1
    if count < WORDS_MIN or at <= end:
        return None
    if numbers[0] > numbers[7] or numbers[3] > INT32_MAX or numbers[4] > MARK_MAX or numbers[6] > INT32_MAX:
        return None
    handle = AckHandle.__new__(AckHandle)
    handle.start_offset, handle.popped_at_ms, handle.invisible_ms = numbers[0], numbers[1], numbers[2]
    handle.revive_queue_id, handle.mark, handle.broker_name = numbers[3], numbers[4], broker_name
    handle.queue_id, handle.offset, handle.position = numbers[6], numbers[7], numbers[8]
    return handle


cdef bint read_name(const Text *text, Text *name) noexcept nogil:
    """Read the name of a `Resource`; its namespace is of no interest."""
    cdef const uint8_t *at = text.at
    cdef const uint8_t *end = at + text.length
    cdef Field field
    name.at, name.length = at, 0
    while at < end:
        if not next_field(&at, end, &field) or field.kind != 2 or not is_plain(&field.text):
            return False
        if field.number == 2:
            name[0] = field.text
        elif field.number != 1:
            return False
    return name.length > 0


cdef bint read_entry(const Text *text, AckEntry *entry) noexcept nogil:
    """Read an entry with a message id, if there is one, and a receipt handle behind it."""
    cdef const uint8_t *at = text.at
    cdef const uint8_t *end = at + text.length
    cdef Field field
    cdef uint64_t before = 0
    entry.whole = text[0]
    entry.handle.length = 0
    while at < end:
        if not next_field(&at, end, &field) or field.kind != 2 or not is_plain(&field.text):
            return False
        if field.number <= before or field.number > 2 or not field.text.length:
            return False
        before = field.number
        entry.handle = field.text
    return before == 2


def read_ack(bytes data not None, bytes broker not None, str broker_name not None):
    """Return group, topic, handles and the response that all is well; None for what is not plain."""
    cdef const uint8_t *at = <const uint8_t *> PyBytes_AS_STRING(data)
    cdef const uint8_t *end = at + PyBytes_GET_SIZE(data)
    cdef AckEntry entries[ENTRIES_MAX]
    cdef Text names[2]
    cdef Field field
    cdef AckHandle handle
    cdef list handles = []
    cdef int count = 0
    cdef int i
    names[0].length = names[1].length = 0
    while at < end:
        if not next_field(&at, end, &field) or field.kind != 2:
            return None
        if field.number == 1 or field.number == 2:
            if names[field.number - 1].length or not read_name(&field.text, &names[field.number - 1]):
                return None
        elif field.number == 3 and count < ENTRIES_MAX:
            if not read_entry(&field.text, &entries[count]):
                return None
            handle = read_handle(&entries[count].handle, broker, broker_name)
            if handle is None:
                return None
            handles.append(handle)
            count += 1
        else:
            return None
    if not count or not names[0].length or not names[1].length:
        return None
    return (
        (<const char *> names[0].at)[: names[0].length].decode("ascii"),
        (<const char *> names[1].at)[: names[1].length].decode("ascii"),
        handles,
        write_response(entries, count),
    )


cdef uint8_t *put_length(uint8_t *at, uint64_t number) noexcept nogil:
    while number >= 0x80:
        at[0] = <uint8_t> (number | 0x80)
        at += 1
        number >>= 7
    at[0] = <uint8_t> number
    return at + 1


cdef bytes write_response(const AckEntry *entries, int count):
    cdef Py_ssize_t size = ENTRY_STATUS_BYTES
    cdef bytes response
    cdef uint8_t *at
    cdef int i
    for i in range(count):
        size += entries[i].whole.length + ENTRY_STATUS_BYTES + LENGTH_BYTES_MAX
    response = PyBytes_FromStringAndSize(NULL, size)
    at = <uint8_t *> PyBytes_AS_STRING(response)
    at[0], at[1] = 0x0a, <uint8_t> OK_BYTES
    memcpy(at + 2, OK, OK_BYTES)
    at += 2 + OK_BYTES
    for i in range(count):
        at[0] = 0x12
        at = put_length(at + 1, entries[i].whole.length + ENTRY_STATUS_BYTES)
        memcpy(at, entries[i].whole.at, entries[i].whole.length)
        at += entries[i].whole.length
        at[0], at[1] = 0x1a, <uint8_t> OK_BYTES
        memcpy(at + 2, OK, OK_BYTES)
        at += 2 + OK_BYTES
    return response[: at - <uint8_t *> PyBytes_AS_STRING(response)]
