"""Diversions: plain messages go to a topic of the broker's own, where they wait.

    read          the value of the property that asks ──► the queue, and when the message is due
    note          properties ──► with the message's own topic and queue in them, as they are stored
    write_handle  what takes the message back ──► the answer

Python teaches each diversion and its queues, and takes every message whose value is unusual, which asks for two
kinds of waiting, or has a property that only a message that was diverted before has.
`pyromq.broker.kinds.delay`, `half_messages` and `timers.timed` are the same in Python and say why.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memmove

from pyromq._kernel.codec.base64 cimport base64_length, write_base64
from pyromq._kernel.codec.bigend cimport write_decimal
from pyromq._kernel.codec.blocks cimport Block, copy, need
from pyromq._kernel.codec.frames cimport Span, read_number
from pyromq._kernel.storage.known cimport Topic
from pyromq._kernel.storage.pairs cimport Pair, count_of, put_pair, reads
from pyromq._kernel.storage.tails cimport QueueTail

cdef extern from *:
    """
    /* Two of them can be added. */
    #define PYROMQ_MS_MAX ((int64_t) 1 << 60)
    """
    const int64_t MS_MAX "PYROMQ_MS_MAX"

cdef enum:
    NAME_BYTES_MAX = 32


cdef class Diversion:
    """A property that asks for it, and what becomes of the message."""

    def __cinit__(
        self,
        *,
        bytes name not None,
        bytes topic not None,
        bytes word,
        tuple delays_ms not None,
        int64_t unit_ms,
        int64_t delay_ms_max,
        bytes due_name,
        tuple excludes not None,
        int32_t cleared,
        bytes recalled_by,
    ):
        # What each of them is says `pyromq.broker.topics.intake.PlainDiversion`.
        self.name = name
        self.topic = Topic(topic, 0)
        self.word = word
        cdef bint is_short = len(due_name or b"") <= NAME_BYTES_MAX
        if not is_short or not all([0 <= ms < MS_MAX for ms in (*delays_ms, unit_ms, delay_ms_max)]):
            raise ValueError(f"the kernel does not divert {name!r} so")
        self.level_count = len(delays_ms)
        if self.level_count:
            self.delays_ms = <int64_t *> malloc(self.level_count * sizeof(int64_t))
            if self.delays_ms == NULL:
                raise MemoryError
            for level, delay_ms in enumerate(delays_ms):
                self.delays_ms[<Py_ssize_t> level] = delay_ms
        self.unit_ms = unit_ms
        self.delay_ms_max = delay_ms_max
        self.due_name = due_name
        self.excludes = excludes
        self.cleared = cleared
        self.recalled_by = recalled_by

    def __dealloc__(self):
        free(self.delays_ms)

    def learn(self, Py_ssize_t queue_id, QueueTail queue not None):
        """Let messages go to a queue; none may be planned now."""
        self.topic.learn(queue_id, queue)

    cdef bint read(self, Span *value, int64_t now_ms, Waiting *waiting) noexcept:
        """Find out where a message waits, and until when; return False when that is Python's to say."""
        cdef int64_t number = 0
        waiting.queue_id = 0
        waiting.due_ms = 0
        if not 0 <= now_ms < MS_MAX:
            return False
        if self.word is not None:
            if not reads(value, PyBytes_AS_STRING(self.word), PyBytes_GET_SIZE(self.word)):
                return False
        elif self.level_count:
            # Java's int has no more digits.
            if not read_number(value, 1, 9999999999, &number):
                return False
            number = min(number, <int64_t> self.level_count)
            value.at, value.length = waiting.level, write_decimal(waiting.level, number) - waiting.level
            waiting.queue_id = <int32_t> number - 1
            waiting.due_ms = now_ms + self.delays_ms[number - 1]
        else:
            if not read_number(value, 1, MS_MAX, &number):
                return False
            if self.unit_ms and number > self.delay_ms_max // self.unit_ms:
                return False
            waiting.due_ms = now_ms + number * self.unit_ms if self.unit_ms else number
            if waiting.due_ms <= now_ms or waiting.due_ms - now_ms > self.delay_ms_max:
                return False
        waiting.queue = self.topic.queue_of(waiting.queue_id)
        return waiting.queue != NULL

    cdef bint note(self, Block *block, Span *topic, int64_t queue_id, Waiting *waiting) except -1:
        """Add what is noted of a message to its pairs, in the order in which Python does."""
        cdef Pair *pairs = <Pair *> block.bytes
        cdef Pair wait
        cdef Py_ssize_t i, count = count_of(block)
        cdef bytes name
        for name in self.excludes:
            for i in range(count):
                if reads(&pairs[i].name, PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name)):
                    return False
        for i in range(count - 1):
            if reads(&pairs[i].name, b"WAIT", 4):
                # RocketMQ takes it out and puts it back, so it comes last.
                wait = pairs[i]
                memmove(&pairs[i], &pairs[i + 1], (count - 1 - i) * sizeof(Pair))
                pairs[count - 1] = wait
                break
        if self.due_name is not None:
            put_pair(
                block, <const uint8_t *> PyBytes_AS_STRING(self.due_name), PyBytes_GET_SIZE(self.due_name),
                waiting.due, write_decimal(waiting.due, waiting.due_ms) - waiting.due,
            )
        put_pair(block, <const uint8_t *> b"REAL_TOPIC", 10, topic.at, topic.length)
        put_pair(
            block, <const uint8_t *> b"REAL_QID", 8,
            waiting.own_queue_id, write_decimal(waiting.own_queue_id, queue_id) - waiting.own_queue_id,
        )
        return True

    cdef Py_ssize_t write_handle(self, Block *out, Span *topic, Waiting *waiting, Span *unique_id) except -1:
        """Write the handle by which a message is taken back into an empty block, and return its length."""
        cdef Py_ssize_t broker = PyBytes_GET_SIZE(self.recalled_by)
        cdef Py_ssize_t length = base64_length(8 + topic.length + broker + NUMBER_BYTES_MAX + unique_id.length)
        cdef uint8_t *words
        cdef uint8_t *at
        need(out, 2 * length)
        words = out.bytes + length
        at = copy(words, b"v1 ", 3)
        at = copy(at, topic.at, topic.length)
        at[0] = c' '
        at = copy(at + 1, PyBytes_AS_STRING(self.recalled_by), broker)
        at[0] = c' '
        at = write_decimal(at + 1, waiting.due_ms)
        at[0] = c' '
        at = copy(at + 1, unique_id.at, unique_id.length)
        write_base64(out.bytes, words, at - words)
        return base64_length(at - words)
