"""AckMessage and ChangeInvisibleDuration of gRPC clients: from the request's bytes to the response that all is well.

    AckMessageRequest   1 group, 2 topic: { 2 name }, 3 entries: { 1 message_id, 2 receipt_handle }
    AckMessageResponse  1 status, 2 entries: { 1 message_id, 2 receipt_handle, 3 status }

    ChangeInvisibleDurationRequest   1 group, 2 topic, 3 receipt_handle, 4 invisible_duration, 5 message_id
    ChangeInvisibleDurationResponse  1 status, 2 receipt_handle

An entry of the response is that of the request with a status behind it. Only plain requests are read: names and
handles of printable ASCII, the fields in their order, handles of this broker with eight words or nine. Everything
else Python reads; `pyromq.broker.grpc.consuming.consume_acks` does the same, and `pyromq.wire.receipt_handle`
says what the words of a handle mean.

`GrpcAcks` answers a request whose messages are all in flight by these handles, in queues that it was told of:
they end in POP's own columns, or Python's `move` gives them another time. Anything else is left to Python before
anything has changed.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memcpy

from pyromq._kernel.codec.bigend cimport write_decimal
from pyromq._kernel.requests.grpc_request cimport Field, Text, has_client_id, is_plain, next_field, read_time
from pyromq._kernel.requests.grpc_signatures cimport MAY_SUBSCRIBE, GrpcSignatures, Need, add_need
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
    #: A message is invisible for so long at least; `pop_door` says why.
    INVISIBLE_MS_MIN = 1000
    #: Of a handle that is written: eight numbers, and what is between them.
    HANDLE_BYTES_MAX = 200

#: A `Status`: 08 20000, 12 "OK".
cdef const char *OK = b"\x08\xa0\x9c\x01\x12\x02OK"
cdef Py_ssize_t OK_BYTES = 8
#: What a group may is kept under the name of its retry topic.
cdef const char *RETRY_PREFIX = b"%RETRY%"
cdef Py_ssize_t RETRY_PREFIX_BYTES = 7


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


cdef struct ChangeRequest:
    #: Group and topic, the receipt handle, and the id of the message, which says nothing.
    Text names[2]
    Text text, message_id
    Handle handle
    int64_t invisible_ms
    bint has_time


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


cdef bint read_change(bytes data, bytes broker, ChangeRequest *request) noexcept:
    """Read a request for another invisible time; return whether it is plain."""
    cdef const uint8_t *at = <const uint8_t *> PyBytes_AS_STRING(data)
    cdef const uint8_t *end = at + PyBytes_GET_SIZE(data)
    cdef Field field
    request.names[0].length = request.names[1].length = request.text.length = request.message_id.length = 0
    request.invisible_ms = 0
    request.has_time = False
    while at < end:
        if not next_field(&at, end, &field) or field.kind != 2:
            return False
        if field.number == 1 or field.number == 2:
            if request.names[field.number - 1].length or not read_name(
                &field.text, &request.names[field.number - 1]
            ):
                return False
        elif field.number == 3 and not request.text.length:
            request.text = field.text
        elif field.number == 4 and not request.has_time:
            request.has_time = True
            if not read_time(&field.text, &request.invisible_ms):
                return False
        elif field.number == 5 and not request.message_id.length and is_plain(&field.text):
            request.message_id = field.text
        else:
            return False
    if not (request.names[0].length and request.names[1].length and request.text.length):
        return False
    return read_handle(&request.text, broker, &request.handle)


cdef class GrpcAcks:
    """Answers the plain acknowledgements, and changes of invisible times, of all gRPC clients of one broker.

    `turn_of` returns the number of this turn if acknowledgements may be answered at once in it, else None;
    `changes` has the number in `turn_number`. `topics` has a `revision`: when it is another, all is forgotten.
    `left` and `left_change` answer what is left. `settings` has the longest time that messages may be invisible,
    as it is now. `signatures` says which calls may be made; None: all.
    """

    cdef bytes _broker
    cdef object _topics, _changes, _turn_of, _left, _left_change, _now_ms, _settings
    cdef GrpcSignatures _signatures
    #: By group and topic, by mark and queue: what ends a message; and that with what gives it another time.
    cdef dict _known, _moved
    cdef readonly Py_ssize_t place_count
    cdef int64_t _revision, _turn
    #: How many requests of each kind were answered here.
    cdef readonly Py_ssize_t answered, changed

    def __init__(
        self, *, bytes broker not None, topics, changes, turn_of, left, left_change, now_ms, settings,
        GrpcSignatures signatures=None,
    ):
        self._broker = broker
        self._topics, self._changes, self._turn_of, self._left = topics, changes, turn_of, left
        self._left_change, self._now_ms, self._settings = left_change, now_ms, settings
        self._signatures = signatures
        self._known = {}
        self._moved = {}
        self._revision = self._turn = -1

    def learn(self, bytes group not None, bytes topic not None, int32_t mark, int32_t queue_id, DeliveryEnding ending not None):
        """End messages of a queue from now on; `group` and `topic` are those of requests, `mark` of handles."""
        self._learn(self._known, group + b"\0" + topic, mark, queue_id, ending)

    def learn_change(
        self, bytes group not None, bytes topic not None, int32_t mark, int32_t queue_id, DeliveryEnding ending not None,
        move not None,
    ):
        """Have `move` give messages of a queue another time from now on: offset, when it is popped, for how long."""
        self._learn(self._moved, group + b"\0" + topic, mark, queue_id, (ending, move))

    cdef int _learn(self, dict known, bytes name, int32_t mark, int32_t queue_id, what) except -1:
        cdef dict places
        if self.place_count >= PLACES_MAX:
            self._forget_all()
        key = <int64_t> mark << 32 | <int64_t> queue_id
        places = known.setdefault(name, {})
        if key not in places:
            self.place_count += 1
        places[key] = what
        return 0

    def ack(self, call, bytes data not None):
        """Answer a request now, or as Python does."""
        response = self._answer(call, data)
        if response is None:
            return self._left(call, data)
        self.answered += 1
        return response

    def change(self, call, bytes data not None):
        """Give a message another invisible time now, or as Python does."""
        response = self._change(call, data)
        if response is None:
            return self._left_change(call, data)
        self.changed += 1
        return response

    cdef bytes _change(self, call, bytes data):
        """Return the response; None, and nothing has changed, when Python is to answer."""
        cdef ChangeRequest request
        cdef Handle *handle = &request.handle
        cdef int64_t now_ms, popped_at_ms, invisible_ms
        cdef dict places
        if not self._may_answer() or not read_change(data, self._broker, &request) or not has_client_id(call):
            return None
        if not handle.position or request.invisible_ms > <int64_t> self._settings.max_invisible_time_mills:
            return None
        if self._signatures is not None and not self._is_signed(call, &request.names[0], NULL):
            return None
        places = self._moved.get(key_of(&request.names[0], &request.names[1]))
        found = None if places is None else places.get(handle.mark << 32 | handle.queue_id)
        if found is None:
            return None
        ending, move = <tuple> found
        if not (<DeliveryEnding?> ending).has(handle.offset, handle.popped_at_ms):
            return None
        now_ms = self._now_ms()
        # In the same millisecond the old handle must be another one.
        popped_at_ms = max(now_ms, handle.popped_at_ms + 1)
        invisible_ms = max(now_ms + max(request.invisible_ms, <int64_t> INVISIBLE_MS_MIN) - popped_at_ms, 0)
        move(handle.offset, popped_at_ms, invisible_ms)
        handle.start_offset, handle.popped_at_ms, handle.invisible_ms = handle.offset, popped_at_ms, invisible_ms
        return write_changed(handle, self._broker)

    cdef bint _is_signed(self, call, const Text *group, const Text *topic) except -1:
        """Whether a call may consume for a group, and of a topic if there is one; Python is asked about any other."""
        cdef Need need
        need.length = 0
        if topic != NULL and not add_need(&need, MAY_SUBSCRIBE, b"", 0, topic):
            return False
        if not add_need(&need, MAY_SUBSCRIBE, RETRY_PREFIX, RETRY_PREFIX_BYTES, group):
            return False
        return self._signatures.admitted(call, need.bytes, need.length) is not None

    cdef int _forget_all(self) except -1:
        self._known = {}
        self._moved = {}
        self.place_count = 0
        return 0

    cdef bint _may_answer(self) except -1:
        """Return whether requests may be answered here, and what is known is of these topics."""
        cdef int64_t revision = self._topics.revision
        if revision != self._revision:
            self._revision = revision
            self._forget_all()
        if not self.place_count:
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
        if self._signatures is not None and not self._is_signed(call, &request.names[0], &request.names[1]):
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


cdef bytes write_changed(const Handle *handle, bytes broker):
    """Return the response with a message's new handle."""
    cdef int64_t before[5]
    cdef int64_t behind[3]
    cdef bytes text = PyBytes_FromStringAndSize(NULL, HANDLE_BYTES_MAX + PyBytes_GET_SIZE(broker))
    cdef bytes response
    cdef uint8_t *at = <uint8_t *> PyBytes_AS_STRING(text)
    cdef Py_ssize_t length
    cdef int i
    before[0], before[1], before[2] = handle.start_offset, handle.popped_at_ms, handle.invisible_ms
    before[3], before[4] = handle.revive_queue_id, handle.mark
    behind[0], behind[1], behind[2] = handle.queue_id, handle.offset, handle.position
    for i in range(5):
        at = write_decimal(at, before[i])
        at[0] = c' '
        at += 1
    memcpy(at, PyBytes_AS_STRING(broker), PyBytes_GET_SIZE(broker))
    at += PyBytes_GET_SIZE(broker)
    for i in range(3):
        at[0] = c' '
        at = write_decimal(at + 1, behind[i])
    length = at - <uint8_t *> PyBytes_AS_STRING(text)
    response = PyBytes_FromStringAndSize(NULL, ENTRY_STATUS_BYTES + 1 + length_bytes(length) + length)
    at = <uint8_t *> PyBytes_AS_STRING(response)
    at[0], at[1] = 0x0a, <uint8_t> OK_BYTES
    memcpy(at + 2, OK, OK_BYTES)
    at[ENTRY_STATUS_BYTES] = 0x12
    at = put_length(at + ENTRY_STATUS_BYTES + 1, length)
    memcpy(at, PyBytes_AS_STRING(text), length)
    return response
