"""SendMessage of gRPC clients, as sends of remoting: the one plan of the turn stores both.

    SendMessageRequest ─► frame of SEND_MESSAGE_V2 ─► an inlet of the turn ─► Sends.plan, with all others
    SendMessageResponse ◄─ answer to the frame ◄──────────────────────────────┘

Each connection has an inlet of its own here, as its address is in the records. Only plain requests become
frames: one message, to a topic that Python has made known with `learn`, whose texts are ASCII and whose limits
are kept. Everything else Python does (`pyromq.broker.grpc.send_rpcs`, which does the same), and so it does
with the frames that the plan leaves.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcmp

from pyromq._kernel.codec.bigend cimport java_hash, load16, load32, store16, store32, write_decimal
from pyromq._kernel.codec.blocks cimport Block, copy, need
from pyromq._kernel.codec.inlets cimport Inlet, TurnInlets
from pyromq._kernel.http2.plain_calls cimport PlainCall
from pyromq._kernel.requests.grpc_request cimport Sent, Text, has_client_id, host_of, read_request
from pyromq._kernel.requests.grpc_signatures cimport MAY_PUBLISH, GrpcSignatures, Need, add_need

cdef enum:
    SEND_MESSAGE_V2 = 310
    VERSION_5 = 413
    LANGUAGE_JAVA = 0
    #: Code, language, version, opaque, flag of a binary header.
    HEAD_BYTES = 13
    OPAQUE_AT = 13
    BINARY = 1

    TOPIC_BYTES_MAX = 127
    MESSAGE_ID_BYTES_MAX = 255
    #: Names and numbers of a frame, and of the properties that are the server's.
    FIXED_BYTES = 512
    INLETS_MAX = 16384

    # MessageType
    NORMAL = 1
    FIFO = 2
    DELAY = 3
    #: java.lang.Integer.MAX_VALUE
    INT_MAX = 2147483647


cdef int32_t queue_of_group(const Text *group, int32_t queue_count) noexcept nogil:
    """Return the queue of a message group; `pyromq.wire.grpc.message_groups` says how."""
    cdef uint64_t state = <uint64_t> <int64_t> <int32_t> java_hash(0, group.at, group.length)
    cdef int64_t bucket = 0, following = 0
    cdef double part, reached
    while following < queue_count:
        bucket = following
        state = <uint64_t> 2862933555777941757 * state + 1
        part = <double> ((state >> 33) + 1) / 2147483648.0
        reached = <double> (bucket + 1) / part
        following = INT_MAX if reached >= INT_MAX else <int64_t> reached
    return <int32_t> bucket


cdef inline uint8_t *put_name(uint8_t *at, char letter) noexcept nogil:
    at = store16(at, 1)
    at[0] = letter
    return at + 1


cdef inline uint8_t *put_number(uint8_t *at, char letter, int64_t number) noexcept nogil:
    cdef uint8_t *start = put_name(at, letter)
    at = write_decimal(start + 4, number)
    store32(start, <int32_t> (at - start - 4))
    return at


cdef inline uint8_t *put_field(uint8_t *at, char letter, const void *text, Py_ssize_t length) noexcept nogil:
    at = store32(put_name(at, letter), <int32_t> length)
    return copy(at, text, length)


cdef inline uint8_t *put_pair(uint8_t *at, const char *name, Py_ssize_t name_length, const Text *value) noexcept nogil:
    """Write a property behind others."""
    at[0] = 2
    at = copy(at + 1, name, name_length)
    at[0] = 1
    return copy(at + 1, value.at, value.length)


cdef uint8_t *put_properties(uint8_t *at, Sent *sent) noexcept nogil:
    """Write the properties of a message, each behind the mark that ends the one before it."""
    cdef Text number
    cdef uint8_t digits[24]
    cdef bint has_keys = False
    cdef Py_ssize_t i
    for i in range(sent.own_count):
        if sent.values[i].length:
            at[0] = 2
            at = copy(at + 1, sent.names[i].at, sent.names[i].length)
            at[0] = 1
            at = copy(at + 1, sent.values[i].at, sent.values[i].length)
    if sent.tag.length:
        at = put_pair(at, b"TAGS", 4, &sent.tag)
    for i in range(sent.key_count):
        if sent.keys[i].length:
            if has_keys:
                at[0] = c' '
                at = copy(at + 1, sent.keys[i].at, sent.keys[i].length)
            else:
                at = put_pair(at, b"KEYS", 4, &sent.keys[i])
            has_keys = True
    at = put_pair(at, b"UNIQ_KEY", 8, &sent.message_id)
    number.at = digits
    if sent.has_time:
        number.length = write_decimal(digits, sent.deliver_ms) - digits
        at = put_pair(at, b"TIMER_DELIVER_MS", 16, &number)
    if sent.group.length:
        at = put_pair(at, b"__SHARDINGKEY", 13, &sent.group)
    if sent.trace.length:
        at = put_pair(at, b"TRACE_CONTEXT", 13, &sent.trace)
    at = put_pair(at, b"__BORNHOST", 10, &sent.born_host)
    number.length = write_decimal(digits, sent.born_ms) - digits
    at = put_pair(at, b"BORN_TIMESTAMP", 14, &number)
    at = put_pair(at, b"PGROUP", 6, &sent.topic)
    return at


cdef class TopicSends:
    """A topic that plain messages may go to: its writable queues, and which kinds it takes, a bit for each."""

    cdef int32_t queue_count
    cdef uint32_t kinds
    cdef uint32_t turn


cdef class GrpcSends:
    """The plain sends of all gRPC clients of one broker."""

    cdef dict _topics, _inlets
    cdef frozenset _reserved
    cdef TurnInlets _turn
    cdef object _monotonic
    #: Python's: answers what is left, does a request that was taken, and tells a call why its message was refused.
    cdef object _left, _do, _refuse
    #: What is known follows from these, and from their revisions.
    cdef object _topics_of, _live
    cdef int64_t _topics_revision, _live_revision
    #: Which calls may be made; None: all.
    cdef GrpcSignatures _signatures
    cdef Py_ssize_t _body_bytes_max, _property_bytes_max, _group_bytes_max
    cdef int64_t _delay_ms_max
    cdef object _now_ms
    cdef Block _frame
    cdef bytes _peer
    #: How many requests became frames, and how many were answered well without Python.
    cdef readonly Py_ssize_t count, answered

    def __cinit__(
        self, *, TurnInlets turn not None, monotonic, now_ms, topics, live, left, do, refuse,
        frozenset reserved not None, GrpcSignatures signatures=None,
    ):
        self._turn = turn
        self._topics_of, self._live, self._left = topics, live, left
        self._topics_revision = self._live_revision = -1
        self._signatures = signatures
        self._monotonic = monotonic
        self._now_ms = now_ms
        self._do = do
        self._refuse = refuse
        self._reserved = reserved
        self._topics = {}
        self._inlets = {}

    def __dealloc__(self):
        free(self._frame.bytes)

    def learn(self, bytes topic not None, int32_t queue_count, kinds, uint32_t turn):
        """Take plain messages to a topic from now on, of these kinds; the next goes to the queue of `turn`."""
        cdef TopicSends known = TopicSends()
        if not 0 < len(topic) <= TOPIC_BYTES_MAX or queue_count < 1:
            raise ValueError("a topic has a name of 127 characters at most, and a writable queue")
        known.queue_count = queue_count
        known.turn = turn
        for kind in kinds:
            known.kinds |= <uint32_t> 1 << <int> kind
        self._topics[topic] = known

    def limit(
        self, *, Py_ssize_t body_bytes_max, Py_ssize_t property_bytes_max, Py_ssize_t group_bytes_max,
        int64_t delay_ms_max,
    ):
        """Take messages within these limits, from now on."""
        self._body_bytes_max = body_bytes_max
        self._property_bytes_max = property_bytes_max
        self._group_bytes_max = group_bytes_max
        self._delay_ms_max = delay_ms_max

    def forget_all(self):
        """Leave all messages to Python, until their topics are learnt again as topics and settings are now."""
        self._topics.clear()
        self._topics_revision = self._topics_of.revision
        self._live_revision = self._live.revision

    @property
    def is_current(self):
        """Whether no topic and no setting changed since everything was forgotten last."""
        return self._is_current()

    cdef bint _is_current(self) except -1:
        return (
            <int64_t> self._topics_of.revision == self._topics_revision
            and <int64_t> self._live.revision == self._live_revision
        )

    def send(self, call, bytes data not None):
        """Answer a request when this turn ends, or as Python does."""
        if self._is_current() and self.take(call, data):
            return None
        return self._left(call, data)

    def drop(self, bytes host not None):
        """Forget a connection that has ended, unless answers to it are still awaited."""
        cdef SendInlet inlet = self._inlets.get(host)
        if inlet is not None and not inlet.is_busy():
            del self._inlets[host]

    @property
    def inlet_count(self):
        """The number of connections that sent something, and of which that is remembered."""
        return len(self._inlets)

    cpdef bint take(self, call, bytes data) except -1:
        """Take a request to be answered when this turn ends; return False when Python is to do it."""
        cdef Sent sent
        cdef TopicSends topic
        cdef const uint8_t *at = <const uint8_t *> PyBytes_AS_STRING(data)
        cdef SendInlet inlet
        cdef int32_t queue_id
        cdef bytes host, message_id
        if data is None:
            raise TypeError("a request is bytes")
        if not read_request(at, at + PyBytes_GET_SIZE(data), &sent):
            return False
        topic = self._topics.get(PyBytes_FromStringAndSize(<char *> sent.topic.at, sent.topic.length))
        if topic is None or not self._is_within_limits(&sent) or not has_client_id(call):
            return False
        if self._signatures is not None and not self._is_signed(call, &sent.topic):
            return False
        if sent.has_time:
            if not topic.kinds >> DELAY & 1 or sent.deliver_ms > <int64_t> self._now_ms() + self._delay_ms_max:
                return False
        elif not topic.kinds >> (FIFO if sent.group.length else NORMAL) & 1:
            return False
        if sent.group.length:
            queue_id = queue_of_group(&sent.group, topic.queue_count)
        else:
            queue_id = <int32_t> (topic.turn % <uint32_t> topic.queue_count)
            topic.turn += 1
        host = host_of(call)
        inlet = self._inlets.get(host)
        if inlet is None:
            inlet = self._new_inlet(host)
        self._peer = None
        if not sent.born_host.length:
            self._peer = call.peer.encode()
            sent.born_host.at = <const uint8_t *> PyBytes_AS_STRING(self._peer)
            sent.born_host.length = PyBytes_GET_SIZE(self._peer)
        message_id = PyBytes_FromStringAndSize(<char *> sent.message_id.at, sent.message_id.length)
        inlet.add(self._write(&sent, queue_id, inlet.next_opaque()), call, data, message_id)
        self.count += 1
        return True

    cdef bint _is_signed(self, call, const Text *topic) except -1:
        """Whether a call may send to a topic; Python is asked about any other."""
        cdef Need need
        need.length = 0
        if not add_need(&need, MAY_PUBLISH, b"", 0, topic):
            return False
        return self._signatures.admitted(call, need.bytes, need.length) is not None

    cdef bint _is_within_limits(self, Sent *sent) except -1:
        cdef Py_ssize_t i, size = sent.tag.length
        if not 0 < sent.body.length <= self._body_bytes_max or not 0 < sent.message_id.length <= MESSAGE_ID_BYTES_MAX:
            return False
        if sent.group.length >= self._group_bytes_max:
            return False
        for i in range(sent.tag.length):
            if sent.tag.at[i] == c'|':
                return False
        for i in range(sent.key_count):
            size += sent.keys[i].length
        for i in range(sent.own_count):
            size += sent.names[i].length + sent.values[i].length
            if PyBytes_FromStringAndSize(<char *> sent.names[i].at, sent.names[i].length) in self._reserved:
                return False
        # The names of the server's own take some of a record's 32,767 bytes too.
        return size <= self._property_bytes_max and size + sent.trace.length + sent.born_host.length < 30000

    cdef SendInlet _new_inlet(self, bytes host):
        cdef SendInlet inlet
        if len(self._inlets) >= INLETS_MAX:
            self._inlets = {
                known: each for known, each in self._inlets.items() if (<SendInlet> each).is_busy()
            }
        inlet = SendInlet(self._turn, self._monotonic, 1 << 40)
        inlet.peer_host_bytes = host
        # Each of its sends was looked at when it came.
        inlet.is_admitted = True
        inlet.sends = self
        self._inlets[host] = inlet
        return inlet

    cdef bytes _write(self, Sent *sent, int32_t queue_id, int32_t opaque):
        """Return the frame of a send: its properties stand in the order in which Python writes them."""
        cdef Block *block = &self._frame
        cdef uint8_t *start
        cdef uint8_t *at
        cdef uint8_t *fields
        cdef uint8_t *properties
        cdef Py_ssize_t i, room = FIXED_BYTES + 3 * sent.topic.length + sent.body.length + sent.tag.length
        room += sent.message_id.length + sent.born_host.length + sent.group.length + sent.trace.length
        for i in range(sent.key_count):
            room += sent.keys[i].length + 1
        for i in range(sent.own_count):
            room += sent.names[i].length + sent.values[i].length + 2
        block.used = 0
        need(block, room)
        start = block.bytes
        at = store16(start + 8, SEND_MESSAGE_V2)
        at[0] = LANGUAGE_JAVA
        at = store16(at + 1, VERSION_5)
        at = store32(at, opaque)
        # The flag, and the length of the remark.
        at = store32(store32(at, 0), 0)
        fields = at + 4
        at = put_field(fields, c'a', sent.topic.at, sent.topic.length)
        at = put_field(at, c'b', sent.topic.at, sent.topic.length)
        at = put_field(at, c'c', b"TBW102", 6)
        at = put_number(at, c'd', 4)
        at = put_number(at, c'e', queue_id)
        at = put_number(at, c'f', 0)
        at = put_number(at, c'g', sent.born_ms)
        at = put_number(at, c'h', 0)
        properties = put_name(at, c'i') + 4
        at = put_properties(properties, sent)
        store32(properties - 4, <int32_t> (at - properties))
        store32(fields - 4, <int32_t> (at - fields))
        store32(start + 4, <int32_t> (at - start - 8) | <int32_t> BINARY << 24)
        at = copy(at, sent.body.at, sent.body.length)
        store32(start, <int32_t> (at - start - 4))
        return PyBytes_FromStringAndSize(<char *> start, at - start)


cdef class SendInlet(Inlet):
    """The sends of one connection that wait for the end of the turn, or to be safe."""

    cdef GrpcSends sends
    #: By opaque: the call and the id of its message; and its request, until its frame is handled.
    cdef dict _calls, _requests
    cdef int32_t _last

    def __cinit__(self, *args, **kwargs):
        self._calls = {}
        self._requests = {}

    cdef bint is_busy(self):
        return len(self._calls) > 0 or self.unsettled > 0

    cdef int32_t next_opaque(self):
        self._last = (self._last + 1) & 0x7fffffff
        return self._last

    cdef int add(self, bytes frame, call, bytes data, bytes message_id) except -1:
        """Have a frame handled when this turn ends."""
        cdef TurnInlets turn = self._turn_of
        self._calls[self._last] = (call, message_id)
        self._requests[self._last] = data
        if self.start == len(self.received):
            if turn.began_at is None:
                turn._begin()
            self.read_at = turn.began_at
            self.waits_since = turn.looked_at
        self.feed(frame)
        if not self._is_noted:
            self._is_noted = True
            turn.noted.append(self)
            turn._plan_end()
        return 0

    cpdef skip_to(self, Py_ssize_t start):
        """Go on behind frames that were handled; a send that waits to be safe keeps no body."""
        Inlet.skip_to(self, start)
        if self.start == len(self.received):
            self._requests.clear()

    cpdef send_frames(self, bytes frames):
        """Answer the calls to whose sends these are the answers."""
        cdef const uint8_t *at = <const uint8_t *> PyBytes_AS_STRING(frames)
        cdef const uint8_t *end = at + PyBytes_GET_SIZE(frames)
        cdef const uint8_t *next_at
        while end - at >= 8 + HEAD_BYTES + 8:
            next_at = at + 4 + load32(at)
            if next_at > end or next_at - at < 8 + HEAD_BYTES + 8:
                raise ValueError("an answer to a send is not whole")
            self._answer(at, next_at)
            at = next_at
        if at != end:
            raise ValueError("an answer to a send is not whole")

    def forgive(self, size):
        """Note that bytes were refused, as links do."""

    def handle_left(self):
        """Have Python do the requests that the plan left, one by one; what follows each may be plain again."""
        cdef const uint8_t *at
        cdef const uint8_t *end
        cdef object shortcut = self._turn_of.shortcut
        while self.start < len(self.received):
            self.look(&at, &end)
            opaque = load32(at + OPAQUE_AT)
            data = self._requests.get(opaque)
            self.skip_to(self.start + 4 + load32(at))
            found = self._calls.pop(opaque, None)
            if found is not None:
                self.sends._do((<tuple> found)[0], data)
            if self.start < len(self.received) and shortcut is not None:
                shortcut([self])

    cdef int _answer(self, const uint8_t *at, const uint8_t *end) except -1:
        """Answer one call; the header of the answer is binary, as that of the send was."""
        cdef int32_t opaque = load32(at + OPAQUE_AT), remark_length, length
        cdef const uint8_t *frame = at
        cdef int code = load16(at + 8)
        cdef int64_t offset = 0
        cdef Text message_id, handle, value
        cdef const uint8_t *name
        cdef bint is_whole = at[4] == BINARY
        found = self._calls.pop(opaque, None) if is_whole else None
        if found is None:
            raise ValueError("an answer to a send that nobody made")
        call = (<tuple> found)[0]
        at += 8 + HEAD_BYTES
        remark_length = load32(at)
        at += 4
        if remark_length < 0 or remark_length > end - at - 4:
            raise ValueError("an answer to a send is not whole")
        if code != 0:
            answer = PyBytes_FromStringAndSize(<char *> frame, end - frame)
            self.sends._refuse(call, (<tuple> found)[1], answer)
            return 0
        at += remark_length + 4
        message_id.length = handle.length = 0
        while end - at >= 6:
            length = load16(at)
            name = at + 2
            if length <= 0 or length > end - name - 4:
                break
            at = name + length
            value.length = load32(at)
            value.at = at + 4
            if value.length < 0 or value.length > end - value.at:
                break
            at = value.at + value.length
            if length == 11 and memcmp(name, b"queueOffset", 11) == 0:
                offset = number_of(&value)
            elif length == 13 and memcmp(name, b"transactionId", 13) == 0:
                message_id = value
            elif length == 12 and memcmp(name, b"recallHandle", 12) == 0:
                handle = value
        self.sends.answered += 1
        answer = response(&message_id, offset, &handle)
        if not isinstance(call, PlainCall):
            call.answer(answer)
        elif not (<PlainCall> call).is_over:
            (<PlainCall> call).answer_now(answer)
        return 0


cdef int64_t number_of(const Text *text) noexcept nogil:
    cdef int64_t number = 0
    cdef Py_ssize_t i
    for i in range(text.length):
        number = 10 * number + (text.at[i] - c'0')
    return number


cdef uint8_t *put_varint(uint8_t *at, uint64_t number) noexcept nogil:
    while number >= 0x80:
        at[0] = <uint8_t> (number | 0x80)
        at += 1
        number >>= 7
    at[0] = <uint8_t> number
    return at + 1


cdef uint8_t *put_text(uint8_t *at, uint8_t head, const Text *text) noexcept nogil:
    if not text.length:
        return at
    at[0] = head
    return copy(put_varint(at + 1, text.length), text.at, text.length)


cdef enum:
    #: A status with code 20000 and the text OK, and its head.
    STATUS_BYTES = 10

#: Field 1, 8 bytes: code 20000, message "OK".
cdef const char *STATUS = b"\x0a\x08\x08\xa0\x9c\x01\x12\x02OK"


cdef bytes response(const Text *message_id, int64_t offset, const Text *handle):
    """Return a SendMessageResponse with one entry; its transaction id is the message's, as RocketMQ's is."""
    cdef uint8_t fixed[2048]
    cdef uint8_t *entry = fixed + 16
    cdef uint8_t *at = entry
    cdef uint8_t *whole
    cdef Block block
    cdef Py_ssize_t size = STATUS_BYTES + 2 * message_id.length + handle.length + 64
    block.bytes = NULL
    block.used = block.room = 0
    if size > 1500:
        need(&block, size + 16)
        entry = at = block.bytes + 16
    at = copy(at, STATUS, STATUS_BYTES)
    at = put_text(at, 0x12, message_id)
    at = put_text(at, 0x1a, message_id)
    if offset:
        at[0] = 0x20
        at = put_varint(at + 1, offset)
    at = put_text(at, 0x2a, handle)
    try:
        return _framed(entry, at - entry)
    finally:
        free(block.bytes)


cdef bytes _framed(const uint8_t *entry, Py_ssize_t length):
    cdef uint8_t head[STATUS_BYTES + 12]
    cdef uint8_t *at = copy(head, STATUS, STATUS_BYTES)
    cdef bytes answer
    cdef uint8_t *out
    at[0] = 0x12
    at = put_varint(at + 1, length)
    answer = PyBytes_FromStringAndSize(NULL, at - head + length)
    out = <uint8_t *> PyBytes_AS_STRING(answer)
    out = copy(out, head, at - head)
    copy(out, entry, length)
    return answer
