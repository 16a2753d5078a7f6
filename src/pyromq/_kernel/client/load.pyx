"""The load generator's loop over requests and answers; `pyromq.bench.slots` is the same in Python.

An answer whose header is written in another way than Apache's and ours is read by two Python functions, and a
third makes the request that commits a half message; `read_with` sets them once.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy, memset

from pyromq._kernel.codec.bigend cimport load32, load64, store32, store64

cdef extern from *:
    """
    static inline int pyromq_bits(unsigned long long value) { return 64 - __builtin_clzll(value); }
    """
    int pyromq_bits(unsigned long long) nogil

cdef enum:
    HALF = 32
    EXACT = 64
    BUCKETS = 64 + 32 * 30
    FRAME_BYTES_MAX = 16777216
    OPAQUE_FIRST = 1000000000
    KEY_DIGITS = 12
    BINARY_HEAD_BYTES = 9
    SUCCESS = 0
    PULL_NOT_FOUND = 19
    PULL_RETRY_IMMEDIATELY = 20
    PULL_OFFSET_MOVED = 21
    SYS_FLAG_AT = 36
    BORN_HOST_AT = 48
    BORN_HOST_V6 = 0x10
    STORE_HOST_V6 = 0x20

cdef int64_t VALUE_MAX = (<int64_t> 1 << 36) - 1
cdef const char *CODE = b'{"code":'
cdef const char *OPAQUE = b'"opaque":'
cdef const char *NEXT_OFFSET = b'"nextBeginOffset":"'

cdef object read_answer = None
cdef object read_offset = None
cdef object end_request = None


def read_with(answer, offset, end):
    """Say who reads headers that are not plain (code and opaque; a pull's next offset), and who ends halves."""
    global read_answer, read_offset, end_request
    read_answer, read_offset, end_request = answer, offset, end


cdef struct Latencies:
    int64_t counts[BUCKETS]
    int64_t sum_us
    int64_t highest_us

cdef struct Answer:
    int64_t code
    int64_t opaque
    int serializer
    Py_ssize_t header_at
    Py_ssize_t body_at
    Py_ssize_t end

cdef struct Row:
    const uint8_t *frame
    Py_ssize_t length
    Py_ssize_t opaque_at
    Py_ssize_t born_at
    bint is_binary
    #: Where its keys' and then its stamps' positions begin among all of them.
    Py_ssize_t first
    Py_ssize_t keys
    Py_ssize_t stamps


# Counting --------------------------------------------------------------------------------------------------


cdef inline void record(Latencies *of, int64_t span_ns) noexcept nogil:
    cdef int64_t value = span_ns // 1000 if span_ns > 0 else 0
    cdef int64_t limited
    cdef int shift
    of.sum_us += value
    if value > of.highest_us:
        of.highest_us = value
    if value < EXACT:
        of.counts[value] += 1
        return
    limited = value if value < VALUE_MAX else VALUE_MAX
    shift = pyromq_bits(<unsigned long long> limited) - 6
    of.counts[shift * HALF + (limited >> shift)] += 1


cdef tuple parts_of(Latencies *of):
    return [of.counts[i] for i in range(BUCKETS)], of.sum_us, of.highest_us


cdef class Counts:
    cdef public int64_t from_ns, until_ns, delay_ns, messages, messages_in_all, delivered_in_all
    cdef public int64_t sent, under_way, late_ns, early_ns
    cdef public dict refused
    cdef Latencies _requests
    cdef Latencies _arrivals

    def __cinit__(self):
        memset(&self._requests, 0, sizeof(Latencies))
        memset(&self._arrivals, 0, sizeof(Latencies))
        self.refused = {}

    cdef inline void answered(self, int64_t messages, int64_t now_ns, int64_t since_ns) noexcept nogil:
        self.messages_in_all += messages
        if self.from_ns <= now_ns < self.until_ns:
            self.messages += messages
            record(&self._requests, now_ns - since_ns)

    cdef inline void delivered(self, int64_t now_ns, int64_t since_ns) noexcept nogil:
        self.delivered_in_all += 1
        now_ns -= self.delay_ns
        if self.from_ns <= now_ns < self.until_ns:
            record(&self._arrivals, now_ns - since_ns)
            if since_ns - now_ns > self.early_ns:
                self.early_ns = since_ns - now_ns

    cdef refuse(self, int64_t code):
        self.refused[code] = self.refused.get(code, 0) + 1

    def latencies(self):
        return parts_of(&self._requests)

    def arrivals(self):
        return parts_of(&self._arrivals)


# Answers ---------------------------------------------------------------------------------------------------


cdef inline bint number_at(
    const uint8_t *at, const uint8_t *end, uint8_t stop, int64_t *number
) noexcept nogil:
    """Read up to 18 digits that end with `stop`; say whether that is what stands there."""
    cdef int64_t value = 0
    cdef const uint8_t *digit = at
    while digit < end and digit - at <= 18 and 48 <= digit[0] <= 57:
        value = value * 10 + (digit[0] - 48)
        digit += 1
    number[0] = value
    return digit > at and digit - at <= 18 and digit < end and digit[0] == stop


cdef bint is_plain(const uint8_t *header, Py_ssize_t length, Answer *answer) noexcept nogil:
    """Read code and opaque of a JSON header that begins with its code."""
    cdef Py_ssize_t at = length - 9
    cdef int64_t opaque = 0
    cdef int i
    if length < 28 or memcmp(header, CODE, 8) != 0:
        return False
    if not number_at(header + 8, header + length, 44, &answer.code):
        return False
    # The opaque is behind the fields of the answer: looked for from the end, a text among them cannot be it.
    while at >= 8 and (header[at] != 34 or memcmp(header + at, OPAQUE, 9) != 0):
        at -= 1
    if at < 8 or at + 19 > length:
        return False
    for i in range(10):
        if not 48 <= header[at + 9 + i] <= 57:
            return False
        opaque = opaque * 10 + (header[at + 9 + i] - 48)
    answer.opaque = opaque
    return True


cdef bint next_answer(const uint8_t *data, Py_ssize_t at, Py_ssize_t size, Answer *answer) except -1:
    """Find the answer at a place; say whether it is whole."""
    cdef int32_t length
    cdef uint32_t mark
    if at + 8 > size:
        return False
    length = load32(data + at)
    mark = <uint32_t> load32(data + at + 4)
    if not 4 <= length <= FRAME_BYTES_MAX or <int32_t> (mark & 0xFFFFFF) > length - 4:
        raise ValueError(f"an answer says it is {length} bytes long")
    answer.serializer = mark >> 24
    answer.header_at = at + 8
    answer.body_at = answer.header_at + (mark & 0xFFFFFF)
    answer.end = at + 4 + length
    if answer.end > size:
        return False
    if answer.serializer == 1 and answer.body_at - answer.header_at >= BINARY_HEAD_BYTES:
        answer.code = <int16_t> (data[answer.header_at] << 8 | data[answer.header_at + 1])
        answer.opaque = load32(data + answer.header_at + 5)
    elif answer.serializer or not is_plain(data + answer.header_at, mark & 0xFFFFFF, answer):
        answer.code, answer.opaque = read_answer(header_of(data, answer), answer.serializer)
    return True


cdef bytes header_of(const uint8_t *data, Answer *answer):
    return PyBytes_FromStringAndSize(<char *> data + answer.header_at, answer.body_at - answer.header_at)


cdef int64_t next_offset(const uint8_t *data, Answer *answer) except? -1:
    """Return where a pull goes on."""
    cdef Py_ssize_t at = answer.header_at
    cdef int64_t number = 0
    if answer.serializer == 0:
        while at + 19 <= answer.body_at:
            if data[at] == 34 and memcmp(data + at, NEXT_OFFSET, 19) == 0:
                if number_at(data + at + 19, data + answer.body_at, 34, &number):
                    return number
                break
            at += 1
    return read_offset(header_of(data, answer), answer.serializer)


# Slots -----------------------------------------------------------------------------------------------------


cdef class Busy:
    """The slots of a connection that have a request in flight, and since when."""

    cdef int64_t *since_ns
    cdef bint *is_busy
    cdef int32_t *unused
    cdef Py_ssize_t free_count, slots

    def __cinit__(self, Py_ssize_t slots):
        cdef Py_ssize_t i
        self.slots = slots
        self.since_ns = <int64_t *> calloc(slots + 1, sizeof(int64_t))
        self.is_busy = <bint *> calloc(slots + 1, sizeof(bint))
        self.unused = <int32_t *> malloc((slots + 1) * sizeof(int32_t))
        if self.since_ns == NULL or self.is_busy == NULL or self.unused == NULL:
            raise MemoryError
        for i in range(slots):
            self.unused[i] = <int32_t> (slots - 1 - i)
        self.free_count = slots

    def __dealloc__(self):
        free(self.since_ns)
        free(self.is_busy)
        free(self.unused)

    cdef inline Py_ssize_t take(self, int64_t since_ns) noexcept nogil:
        self.free_count -= 1
        cdef Py_ssize_t slot = self.unused[self.free_count]
        self.since_ns[slot] = since_ns
        self.is_busy[slot] = True
        return slot

    cdef inline Py_ssize_t slot_of(self, int64_t opaque) except -1:
        cdef int64_t slot = opaque - OPAQUE_FIRST
        if not 0 <= slot < self.slots or not self.is_busy[slot]:
            raise ValueError(f"an answer with opaque {opaque} is to no request")
        return slot

    cdef inline void give_back(self, Py_ssize_t slot) noexcept nogil:
        self.unused[self.free_count] = <int32_t> slot
        self.free_count += 1


cdef class Templates:
    cdef list _kept
    cdef Row *_rows
    cdef int32_t *_marks
    cdef Py_ssize_t _count
    cdef public Py_ssize_t next_number
    cdef public uint64_t next_key

    def __cinit__(self, rows, uint64_t first_key, Py_ssize_t first_number=0):
        cdef Py_ssize_t i, mark = 0
        cdef bytes frame
        self._kept = [row[0] for row in rows]
        self._count = len(self._kept)
        self._rows = <Row *> calloc(self._count + 1, sizeof(Row))
        self._marks = <int32_t *> calloc(sum(len(row[3]) + len(row[4]) for row in rows) + 1, sizeof(int32_t))
        if self._rows == NULL or self._marks == NULL:
            raise MemoryError
        for i in range(self._count):
            frame, opaque_at, born_at, keys_at, stamps_at, is_binary = rows[i]
            self._rows[i] = Row(
                frame=<const uint8_t *> PyBytes_AS_STRING(frame),
                length=PyBytes_GET_SIZE(frame),
                opaque_at=opaque_at,
                born_at=born_at,
                first=mark,
                is_binary=is_binary,
                keys=len(keys_at),
                stamps=len(stamps_at),
            )
            widths = {opaque_at: 4 if is_binary else 10, **({born_at: 13} if born_at >= 0 else {}), **dict.fromkeys(keys_at, 12), **dict.fromkeys(stamps_at, 8)}
            for at, width in widths.items():
                if not 0 <= at <= len(frame) - width:
                    raise ValueError(f"a mark at {at} is outside of its template")
            for at in [*keys_at, *stamps_at]:
                self._marks[mark] = at
                mark += 1
        self.next_number = first_number % self._count
        self.next_key = first_key

    def __dealloc__(self):
        free(self._rows)
        free(self._marks)

    cdef Py_ssize_t bytes_of(self, Py_ssize_t count) noexcept nogil:
        """Return how long the next requests are."""
        cdef Py_ssize_t total = 0, number = self.next_number, i
        for i in range(count):
            total += self._rows[number].length
            number += 1
            if number == self._count:
                number = 0
        return total

    cdef uint8_t *write(
        self, uint8_t *out, int64_t opaque, int64_t since_ns, int64_t born_ms, bint is_stamped
    ) noexcept nogil:
        """Write the next request and return the byte behind it."""
        cdef Row *row = &self._rows[self.next_number]
        cdef int32_t *mark = self._marks + row.first
        cdef Py_ssize_t i
        self.next_number += 1
        if self.next_number == self._count:
            self.next_number = 0
        memcpy(out, row.frame, row.length)
        if row.is_binary:
            store32(out + row.opaque_at, <int32_t> opaque)
        else:
            write_digits(out + row.opaque_at, opaque, 10)
        if row.born_at >= 0:
            write_digits(out + row.born_at, born_ms, 13)
        for i in range(row.keys):
            write_key(out + mark[i], self.next_key)
            self.next_key = (self.next_key + 1) & 0xFFFFFFFFFFFFULL
        if is_stamped:
            for i in range(row.keys, row.keys + row.stamps):
                store64(out + mark[i], since_ns)
        return out + row.length


cdef inline void write_digits(uint8_t *out, int64_t number, int width) noexcept nogil:
    cdef uint64_t left = <uint64_t> number
    while width:
        width -= 1
        out[width] = <uint8_t> (48 + left % 10)
        left //= 10


cdef inline void write_key(uint8_t *out, uint64_t key) noexcept nogil:
    cdef int i, digit
    for i in range(KEY_DIGITS - 1, -1, -1):
        digit = <int> (key & 15)
        out[i] = <uint8_t> (48 + digit if digit < 10 else 55 + digit)
        key >>= 4


cdef class SendSlots:
    cdef Templates _templates
    cdef Counts _counts
    cdef Busy _busy
    cdef int64_t _batch, _start_ns, _number, _step
    cdef double _interval_ns
    cdef bint _is_stamped
    #: Of connections that send halves: which slots' half is stored, and the commits that are to leave.
    cdef bint *_is_stored
    cdef list _ends
    cdef public bytes rest

    def __dealloc__(self):
        free(self._is_stored)

    def __init__(
        self,
        Templates templates not None,
        Counts counts not None,
        Py_ssize_t slots,
        *,
        int64_t batch,
        bint is_stamped,
    ):
        self._templates = templates
        self._counts = counts
        self._busy = Busy(slots)
        self._batch = batch
        self._is_stamped = is_stamped
        self._step = 1
        self.rest = b""

    def pace(self, int64_t start_ns, double interval_ns, int64_t number, int64_t step):
        self._start_ns, self._interval_ns, self._number, self._step = start_ns, interval_ns, number, step

    def feed(self, data, int64_t now_ns):
        cdef Py_buffer view
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            self._feed(<const uint8_t *> view.buf, view.len, now_ns)
        finally:
            PyBuffer_Release(&view)

    cdef _feed(self, const uint8_t *data, Py_ssize_t size, int64_t now_ns):
        cdef Counts counts = self._counts
        cdef Busy busy = self._busy
        cdef Answer answer
        cdef Py_ssize_t at = 0, slot
        while next_answer(data, at, size, &answer):
            slot = busy.slot_of(answer.opaque)
            if self._is_stored == NULL or not self._end(data, &answer, slot):
                if answer.code == SUCCESS:
                    counts.answered(self._batch, now_ns, busy.since_ns[slot])
                else:
                    counts.refuse(answer.code)
                busy.is_busy[slot] = False
                busy.give_back(slot)
                counts.under_way -= 1
            at = answer.end
        self.rest = PyBytes_FromStringAndSize(<char *> data + at, size - at)

    cdef bint _end(self, const uint8_t *data, Answer *answer, Py_ssize_t slot) except -1:
        """Go on with a half that was stored; say whether that is what the answer is to."""
        if not self._is_stored[slot] and answer.code == SUCCESS:
            self._ends.append(end_request(header_of(data, answer), answer.serializer, answer.opaque))
            self._is_stored[slot] = True
            return True
        self._is_stored[slot] = False
        return False

    def fill(self, int64_t most, int64_t since_ns, int64_t born_ms):
        return self._build(min(most, self._busy.free_count), since_ns, 0.0, born_ms)

    def fill_due(self, int64_t now_ns, int64_t limit, int64_t born_ms):
        cdef int64_t count = 0, number = self._number, due_ns
        cdef Counts counts = self._counts
        while count < self._busy.free_count and number < limit:
            due_ns = self._start_ns + <int64_t> (number * self._interval_ns)
            if due_ns > now_ns:
                break
            if due_ns >= counts.from_ns and now_ns - due_ns > counts.late_ns:
                counts.late_ns = now_ns - due_ns
            count += 1
            number += self._step
        return self._build(count, self._start_ns, self._interval_ns, born_ms) if count else b""

    cdef bytes _build(self, int64_t count, int64_t start_ns, double interval_ns, int64_t born_ms):
        """Make requests that are waited for since start + number × interval; without a rate, since start."""
        cdef bytes made
        cdef uint8_t *out
        cdef int64_t since_ns = start_ns, i
        cdef Py_ssize_t slot
        if count <= 0:
            return b""
        made = PyBytes_FromStringAndSize(NULL, self._templates.bytes_of(count))
        out = <uint8_t *> PyBytes_AS_STRING(made)
        for i in range(count):
            if interval_ns != 0.0:
                since_ns = start_ns + <int64_t> (self._number * interval_ns)
                self._number += self._step
            slot = self._busy.take(since_ns)
            out = self._templates.write(out, OPAQUE_FIRST + slot, since_ns, born_ms, self._is_stamped)
        self._counts.under_way += count
        self._counts.sent += count
        return made


cdef class TransactionSlots(SendSlots):
    def __init__(self, Templates templates not None, Counts counts not None, Py_ssize_t slots, **more):
        SendSlots.__init__(self, templates, counts, slots, **more)
        free(self._is_stored)
        self._is_stored = <bint *> calloc(slots + 1, sizeof(bint))
        if self._is_stored == NULL:
            raise MemoryError
        self._ends = []

    def fill(self, int64_t most, int64_t since_ns, int64_t born_ms):
        return self._taken_ends() + SendSlots.fill(self, most, since_ns, born_ms)

    def fill_due(self, int64_t now_ns, int64_t limit, int64_t born_ms):
        return self._taken_ends() + SendSlots.fill_due(self, now_ns, limit, born_ms)

    cdef bytes _taken_ends(self):
        ends, self._ends = b"".join(self._ends), []
        return ends


cdef class PullSlots:
    cdef Counts _counts
    cdef Busy _busy
    cdef list _queues, _at, _offset
    cdef bint _is_following, _is_repeated
    cdef public bytes rest

    def __init__(self, queues, Counts counts not None, *, bint is_following, bint is_repeated):
        self._queues = [list(row) for row in queues]
        self._counts = counts
        self._busy = Busy(len(self._queues))
        self._at = [0] * len(self._queues)
        self._offset = [row[0][2] for row in self._queues]
        self._is_following = is_following
        self._is_repeated = is_repeated
        self.rest = b""

    def feed(self, data, int64_t now_ns):
        cdef Py_buffer view
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            self._feed(<const uint8_t *> view.buf, view.len, now_ns)
        finally:
            PyBuffer_Release(&view)

    cdef _feed(self, const uint8_t *data, Py_ssize_t size, int64_t now_ns):
        cdef Busy busy = self._busy
        cdef Answer answer
        cdef Py_ssize_t at = 0, slot
        while next_answer(data, at, size, &answer):
            slot = busy.slot_of(answer.opaque)
            if self._is_following:
                self._follow(slot, data, &answer, now_ns)
            else:
                self._read_one(slot, data, &answer, now_ns)
                self._counts.under_way -= 1
            busy.is_busy[slot] = False
            if self._at[slot] < len(self._queues[slot]):
                busy.give_back(slot)
            at = answer.end
        self.rest = PyBytes_FromStringAndSize(<char *> data + at, size - at)

    def fill(self, int64_t most, int64_t since_ns, int64_t born_ms):
        cdef list pulls = []
        cdef Py_ssize_t slot
        cdef bytes header
        cdef uint8_t lengths[8]
        while self._busy.free_count and (most > 0 or self._is_following):
            slot = self._busy.take(since_ns)
            head, tail, _ = self._queues[slot][self._at[slot]]
            header = b"%b%d%b" % (head, self._offset[slot], tail)
            store32(store32(lengths, <int32_t> len(header) + 4), <int32_t> len(header))
            pulls.append(lengths[:8])
            pulls.append(header)
            if not self._is_following:
                most -= 1
                self._counts.under_way += 1
                self._counts.sent += 1
        return b"".join(pulls)

    cdef _follow(self, Py_ssize_t slot, const uint8_t *data, Answer *answer, int64_t now_ns):
        if answer.code == SUCCESS:
            take_stamps(data, answer.body_at, answer.end, now_ns, self._counts)
        elif answer.code != PULL_NOT_FOUND and answer.code != PULL_RETRY_IMMEDIATELY:
            self._counts.refuse(answer.code)
            return
        self._offset[slot] = max(self._offset[slot], next_offset(data, answer))

    cdef _read_one(self, Py_ssize_t slot, const uint8_t *data, Answer *answer, int64_t now_ns):
        cdef int64_t offset = self._offset[slot], following
        if answer.code == SUCCESS:
            following = next_offset(data, answer)
            self._counts.answered(following - offset, now_ns, self._busy.since_ns[slot])
            self._offset[slot] = following
            return
        if answer.code == PULL_OFFSET_MOVED:
            following = next_offset(data, answer)
            if following > offset:
                self._offset[slot] = following
                return
        if answer.code != PULL_NOT_FOUND:
            self._counts.refuse(answer.code)
        self._next_queue(slot)

    cdef _next_queue(self, Py_ssize_t slot):
        self._at[slot] += 1
        if self._at[slot] == len(self._queues[slot]):
            if not self._is_repeated:
                return
            self._at[slot] = 0
        self._offset[slot] = self._queues[slot][self._at[slot]][2]


cdef take_stamps(const uint8_t *data, Py_ssize_t at, Py_ssize_t end, int64_t now_ns, Counts counts):
    """Count each message of a row of records, from the time at its body's start."""
    cdef int64_t since_ns, size, flags
    cdef Py_ssize_t body_at, from_at = at
    cdef bint is_counting
    # All of them are looked at before one is counted, as the other version does.
    for is_counting in (False, True):
        at = from_at
        while at < end:
            if end - at < BORN_HOST_AT:
                raise ValueError("an answer's messages are not whole")
            size = load32(data + at)
            flags = load32(data + at + SYS_FLAG_AT)
            body_at = at + BORN_HOST_AT + (20 if flags & BORN_HOST_V6 else 8) + 8
            body_at += (20 if flags & STORE_HOST_V6 else 8) + 16
            if body_at + 8 > at + size or at + size > end:
                raise ValueError("an answer's messages are not whole")
            if is_counting:
                since_ns = load64(data + body_at)
                counts.delivered(now_ns, since_ns if since_ns > 0 else 0)
            at += size
