"""Acknowledgements of popped messages, one by one: from the received bytes to the bytes of the answers.

Only queues that Python acknowledged a message of before are known: `learn` gives what ends a message of a queue
by its offset and pop time. A handle that does not read, of a message in order, of another topic than the
request's, a message that is not in flight by it: all that is left to Python.
`pyromq.broker.requests.handlers.pop_ack_handlers` is the same in Python.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memchr, memcmp

from pyromq._kernel.codec.answers cimport PART_OPAQUE, VALUES_MAX, AnswerHead, Value
from pyromq._kernel.codec.blocks cimport Block, need
from pyromq._kernel.codec.frames cimport READ, Frame, Span, find_field, read_frame, read_number
from pyromq._kernel.codec.inlets cimport Inlet
from pyromq._kernel.requests.place_keys cimport place_key
from pyromq._kernel.requests.signatures cimport Signatures

cdef enum:
    ACK_MESSAGE = 200051
    FLAG_RESPONSE = 1
    FLAG_ONEWAY = 2
    #: The words of a handle that are looked at, and the most that it may have here.
    HANDLE_WORDS = 8
    HANDLE_WORDS_MAX = 9
    HANDLE_BYTES_MAX = 256
    WORD_START = 0
    WORD_POPPED_AT = 1
    WORD_REVIVE_QUEUE = 3
    WORD_MARK = 4
    WORD_BROKER = 5
    WORD_OFFSET = 7
    ORDERED_QUEUE = 999
    MARK_MAX = 2
    RETRY_LENGTH = 7

cdef const char *RETRY = b"%RETRY%"


cdef class Acks:
    """Answers acknowledgements. One for each broker."""

    cdef dict _plans
    #: With access control: what looks at each frame.
    cdef Signatures _signatures
    cdef Block _answers
    cdef AnswerHead _ended

    def __init__(self, *, list answer_parts, list binary_parts, int language, int version):
        self._plans = {}
        self._ended = AnswerHead(
            parts=answer_parts, binary_parts=binary_parts, remark=b"", language=language, version=version
        )

    def __cinit__(self):
        self._answers.bytes = NULL
        self._answers.used = self._answers.room = 0

    def __dealloc__(self):
        free(self._answers.bytes)

    def guard(self, Signatures signatures):
        """Answer only what signatures let pass from now on; None: everything."""
        self._signatures = signatures

    def learn(self, bytes key not None, end not None):
        """Answer for this place from now on: `end` ends a message, told its offset and pop time.

        It returns whether the message was in flight so; else the request is left to Python.
        """
        self._plans[key] = end

    def forget_all(self):
        """Leave everything to Python, until it is learnt again."""
        self._plans = {}

    @property
    def plan_count(self):
        """The number of known places."""
        return len(self._plans)

    def answer(self, list inlets not None):
        """Answer the acknowledgements at the front of inlets; return how many."""
        cdef Py_ssize_t count = 0
        cdef Inlet inlet
        for inlet in inlets:
            count += self._answer_inlet(inlet)
        return count

    cdef Py_ssize_t _answer_inlet(self, Inlet inlet) except -1:
        """Answer what is at the front of one inlet; see `answer`."""
        cdef const uint8_t *begin
        cdef const uint8_t *at
        cdef const uint8_t *end
        cdef Frame frame
        cdef Py_ssize_t answers_max = inlet.room(), count = 0
        # Nobody lets go of it while it is read.
        received = inlet.received
        inlet.look(&begin, &end)
        at = begin
        self._answers.used = 0
        while at < end and self._answers.used < answers_max:
            if read_frame(at, end, &frame) != READ or frame.code != ACK_MESSAGE or frame.body_length:
                break
            if frame.flag & (FLAG_RESPONSE | FLAG_ONEWAY):
                break
            if self._signatures is not None and not self._signatures.allows(&frame, inlet.peer_host_bytes):
                break
            if not self._end(&frame):
                break
            self._write(&frame)
            at = frame.end
            count += 1
        if count:
            inlet.skip_to(inlet.start + (at - begin))
            inlet.send_frames(PyBytes_FromStringAndSize(<char *> self._answers.bytes, self._answers.used))
        return count

    cdef bint _end(self, Frame *frame) except -1:
        """End the message of a request; return whether that was possible here."""
        cdef int64_t offset = 0, popped_at = 0, mark = 0
        cdef Span *field = find_field(frame, b"offset", 6)
        cdef Span *topic
        cdef bytes key
        if field == NULL or not read_number(field, 0, 1 << 62, &offset):
            return False
        field = find_field(frame, b"extraInfo", 9)
        if field == NULL or not _read_handle(field, offset, &popped_at, &mark):
            return False
        if mark:
            # Else Python puts the retry topic's name together.
            topic = find_field(frame, b"topic", 5)
            if topic == NULL or topic.length < RETRY_LENGTH or memcmp(topic.at, RETRY, RETRY_LENGTH):
                return False
        key = place_key(frame)
        if key is None:
            return False
        end = self._plans.get(key)
        return end is not None and end(offset, popped_at)

    cdef int _write(self, Frame *frame) except -1:
        cdef Value values[VALUES_MAX]
        cdef uint8_t *at
        cdef int i
        need(&self._answers, self._ended.bytes_max)
        for i in range(VALUES_MAX):
            values[i].text = NULL
            values[i].length = values[i].number = 0
        values[PART_OPAQUE].number = frame.opaque
        at = self._ended.write(self._answers.bytes + self._answers.used, frame, values, 0)
        self._answers.used = at - self._answers.bytes
        return 0


cdef bint _read_handle(Span *text, int64_t offset, int64_t *popped_at, int64_t *mark) noexcept:
    """Read what matters of a receipt handle; return whether it is a plain one, for a message with an offset."""
    cdef const uint8_t *at = text.at
    cdef const uint8_t *end = at + text.length
    cdef const uint8_t *space
    cdef Span word
    cdef int64_t number
    cdef int count = 0
    word.is_escaped = False
    if text.length > HANDLE_BYTES_MAX:
        return False
    while at <= end:
        space = <const uint8_t *> memchr(at, c' ', end - at) if at < end else NULL
        word.at = at
        word.length = (end if space == NULL else space) - at
        if word.length == 0 or count == HANDLE_WORDS_MAX:
            return False
        if count != WORD_BROKER:
            if not read_number(&word, 0, 1 << 62, &number):
                return False
            if count == WORD_POPPED_AT:
                popped_at[0] = number
            elif count == WORD_MARK:
                mark[0] = number
                if number > MARK_MAX:
                    return False
            elif count == WORD_REVIVE_QUEUE and number == ORDERED_QUEUE:
                return False
            elif count == WORD_START and number > offset:
                return False
            elif count == WORD_OFFSET and number != offset:
                return False
        count += 1
        if space == NULL:
            break
        at = space + 1
    return count >= HANDLE_WORDS
