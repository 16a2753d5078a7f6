"""AckMessage of gRPC clients: from the request's bytes to receipt handles, and to the response that all is well.

    AckMessageRequest   1 group, 2 topic: { 2 name }, 3 entries: { 1 message_id, 2 receipt_handle }
    AckMessageResponse  1 status, 2 entries: { 1 message_id, 2 receipt_handle, 3 status }

An entry of the response is that of the request with a status behind it. Only plain requests are read: names and
handles of printable ASCII, the fields in their order, handles of this broker with eight words or nine. Everything
else Python reads; `pyromq.broker.grpc.consuming.consume_acks` does the same, and `pyromq.wire.receipt_handle`
says what the words of a handle mean.

`GrpcAcks` answers a request whose messages are all in flight by these handles, in queues that it was told of:
they end in POP's own columns. Anything else is left to Python before anything has changed.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memcpy

from pyromq._kernel.requests.grpc_request cimport Field, Text, has_client_id, is_plain, next_field
from pyromq._kernel.storage.in_flight cimport DeliveryEnding

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
    #: Queues that are known at a time, of all groups.
    PLACES_MAX = 100000

#: A `Status`: 08 20000, 12 "OK".
cdef const char *OK = b"\x08\xa0\x9c\x01\x12\x02OK"
cdef Py_ssize_t OK_BYTES = 8


cdef struct Handle:
    #: The words of a receipt handle that are numbers, in their order.
    int64_t start_offset, popped_at_ms, invisible_ms, revive_queue_id, mark, queue_id, offset, position


cdef struct AckEntry:
    #: The whole entry, as it was sent.
    Text whole
    Text text
    Handle handle


cdef struct AckRequest:
    #: Group and topic.
    Text names[2]
    AckEntry entries[ENTRIES_MAX]
    int count


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


cdef bint read_handle(const Text *text, bytes broker, Handle *handle) noexcept:
    """Read a handle; return whether it is a plain one, of this broker."""
    cdef int64_t numbers[WORDS_MAX]
    cdef const uint8_t *at = text.at
    cdef const uint8_t *end = at + text.length
    cdef const uint8_t *mark
    cdef Text word
    cdef int count = 0
    numbers[WORDS_MAX - 1] = 0
    while at <= end and count < WORDS_MAX:
        mark = at
        while mark < end and mark[0] != c' ':
            mark += 1
        word.at, word.length = at, mark - at
        if count == BROKER_WORD:
            if word.length != PyBytes_GET_SIZE(broker) or memcmp(word.at, PyBytes_AS_STRING(broker), word.length):
                return False
            numbers[count] = 0
        elif not take_number(&word, &numbers[count]):
            return False
        at = mark + 1
        count += 1
    if count < WORDS_MIN or at <= end:
        return False
    if numbers[0] > numbers[7] or numbers[3] > INT32_MAX or numbers[4] > MARK_MAX or numbers[6] > INT32_MAX:
        return False
    handle.start_offset, handle.popped_at_ms, handle.invisible_ms = numbers[0], numbers[1], numbers[2]
    handle.revive_queue_id, handle.mark = numbers[3], numbers[4]
    handle.queue_id, handle.offset, handle.position = numbers[6], numbers[7], numbers[8]
    return True


cdef AckHandle handle_of(const Handle *read, str broker_name):
    """Return a handle that was read, for Python."""
    cdef AckHandle handle = AckHandle.__new__(AckHandle)
    handle.start_offset, handle.popped_at_ms, handle.invisible_ms = (
        read.start_offset, read.popped_at_ms, read.invisible_ms
    )
    handle.revive_queue_id, handle.mark, handle.broker_name = read.revive_queue_id, read.mark, broker_name
    handle.queue_id, handle.offset, handle.position = read.queue_id, read.offset, read.position
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
    entry.text.length = 0
    while at < end:
        if not next_field(&at, end, &field) or field.kind != 2 or not is_plain(&field.text):
            return False
        if field.number <= before or field.number > 2 or not field.text.length:
            return False
        before = field.number
        entry.text = field.text
    return before == 2


cdef bint read_request(bytes data, bytes broker, AckRequest *request) noexcept:
    """Read a request with one entry or more; return whether it is plain."""
    cdef const uint8_t *at = <const uint8_t *> PyBytes_AS_STRING(data)
    cdef const uint8_t *end = at + PyBytes_GET_SIZE(data)
    cdef AckEntry *entry
    cdef Field field
    request.count = 0
    request.names[0].length = request.names[1].length = 0
    while at < end:
        if not next_field(&at, end, &field) or field.kind != 2:
            return False
        if field.number == 1 or field.number == 2:
            if request.names[field.number - 1].length or not read_name(
                &field.text, &request.names[field.number - 1]
            ):
                return False
        elif field.number == 3 and request.count < ENTRIES_MAX:
            entry = &request.entries[request.count]
            if not read_entry(&field.text, entry) or not read_handle(&entry.text, broker, &entry.handle):
                return False
            request.count += 1
        else:
            return False
    return request.count > 0 and request.names[0].length > 0 and request.names[1].length > 0


def read_ack(bytes data not None, bytes broker not None, str broker_name not None):
    """Return group, topic, handles and the response that all is well; None for what is not plain."""
    cdef AckRequest request
    cdef int i
    if not read_request(data, broker, &request):
        return None
    return (
        (<const char *> request.names[0].at)[: request.names[0].length].decode("ascii"),
        (<const char *> request.names[1].at)[: request.names[1].length].decode("ascii"),
        [handle_of(&request.entries[i].handle, broker_name) for i in range(request.count)],
        write_response(request.entries, request.count),
    )


cdef class GrpcAcks:
    """Answers the plain acknowledgements of all gRPC clients of one broker.

    `turn_of` returns the number of this turn if acknowledgements may be answered at once in it, else None;
    `changes` has the number in `turn_number`. `topics` has a `revision`: when it is another, all is forgotten.
    `left` answers what is left.
    """

    cdef bytes _broker
    cdef object _topics, _changes, _turn_of, _left
    #: By group and topic, by mark and queue: what ends a message.
    cdef dict _known
    cdef readonly Py_ssize_t place_count
    cdef int64_t _revision, _turn
    #: How many requests were answered here.
    cdef readonly Py_ssize_t answered

    def __init__(self, *, bytes broker not None, topics, changes, turn_of, left):
        self._broker = broker
        self._topics, self._changes, self._turn_of, self._left = topics, changes, turn_of, left
        self._known = {}
        self._revision = self._turn = -1

    def learn(self, bytes group not None, bytes topic not None, int32_t mark, int32_t queue_id, DeliveryEnding ending not None):
        """End messages of a queue from now on; `group` and `topic` are those of requests, `mark` of handles."""
        cdef dict places
        if self.place_count >= PLACES_MAX:
            self._forget_all()
        key = <int64_t> mark << 32 | <int64_t> queue_id
        places = self._known.setdefault(group + b"\0" + topic, {})
        if key not in places:
            self.place_count += 1
        places[key] = ending

    def ack(self, call, bytes data not None):
        """Answer a request now, or as Python does."""
        response = self._answer(call, data)
        if response is None:
            return self._left(call, data)
        self.answered += 1
        return response

    cdef int _forget_all(self) except -1:
        self._known = {}
        self.place_count = 0
        return 0

    cdef bint _may_answer(self) except -1:
        """Return whether requests may be answered here, and what is known is of these topics."""
        cdef int64_t revision = self._topics.revision
        if revision != self._revision:
            self._revision = revision
            self._forget_all()
        if not self._known:
            return False
        if <int64_t> self._changes.turn_number != self._turn:
            turn = self._turn_of()
            if turn is None:
                return False
            self._turn = turn
        return True

    cdef bytes _answer(self, call, bytes data):
        """Return the response; None, and nothing has changed, when Python is to answer."""
        cdef AckRequest request
        cdef PyObject *endings[ENTRIES_MAX]
        cdef dict places
        cdef Handle *handle
        cdef PyObject *found
        cdef int i
        if not self._may_answer() or not read_request(data, self._broker, &request) or not has_client_id(call):
            return None
        places = self._known.get(key_of(&request.names[0], &request.names[1]))
        if places is None:
            return None
        for i in range(request.count):
            handle = &request.entries[i].handle
            found = PyDict_GetItem(places, handle.mark << 32 | handle.queue_id)
            if found == NULL or not (<DeliveryEnding> found).has(handle.offset, handle.popped_at_ms):
                return None
            endings[i] = found
        if has_twins(&request, endings):
            return None
        for i in range(request.count):
            handle = &request.entries[i].handle
            # It was found above, and nothing that could change that has run since.
            (<DeliveryEnding> endings[i]).end(handle.offset, handle.popped_at_ms)
        return write_response(request.entries, request.count)


cdef bytes key_of(const Text *group, const Text *topic):
    """Return the key of a group and a topic."""
    cdef bytes key = PyBytes_FromStringAndSize(NULL, group.length + 1 + topic.length)
    cdef char *at = PyBytes_AS_STRING(key)
    memcpy(at, group.at, group.length)
    at[group.length] = 0
    memcpy(at + group.length + 1, topic.at, topic.length)
    return key


cdef bint has_twins(const AckRequest *request, PyObject **endings) noexcept:
    """Whether a message is named twice; most requests name those of one queue in their order."""
    cdef int i, j
    cdef bint is_in_order = True
    for i in range(1, request.count):
        if endings[i] != endings[i - 1] or request.entries[i].handle.offset <= request.entries[i - 1].handle.offset:
            is_in_order = False
            break
    if is_in_order:
        return False
    for i in range(1, request.count):
        for j in range(i):
            if endings[i] == endings[j] and request.entries[i].handle.offset == request.entries[j].handle.offset:
                return True
    return False


cdef uint8_t *put_length(uint8_t *at, uint64_t number) noexcept nogil:
    while number >= 0x80:
        at[0] = <uint8_t> (number | 0x80)
        at += 1
        number >>= 7
    at[0] = <uint8_t> number
    return at + 1


cdef Py_ssize_t length_bytes(uint64_t number) noexcept nogil:
    cdef Py_ssize_t count = 1
    while number >= 0x80:
        number >>= 7
        count += 1
    return count


cdef bytes write_response(const AckEntry *entries, int count):
    cdef Py_ssize_t length, size = ENTRY_STATUS_BYTES
    cdef bytes response
    cdef uint8_t *at
    cdef int i
    for i in range(count):
        length = entries[i].whole.length + ENTRY_STATUS_BYTES
        size += 1 + length_bytes(length) + length
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
    return response
