"""Pulls, from the received bytes to the bytes of the answers: records are copied, never decoded.

Only pulls that find messages are answered, of consumers that Python has let through before: `learn` keeps its
decision under what does not change from pull to pull (group, topic, queue, flags, subscription). Everything
else, an empty queue first of all, is left to Python. `pyromq.broker.requests.handlers.pull_handlers` and `pyromq.store.reading`
are the same in Python and say what each limit means.
"""

from cpython.array cimport array
from cpython.buffer cimport PyBUF_SIMPLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memchr, memcmp, memcpy

from pyromq._kernel.codec.answers cimport PART_FIRST, PART_OPAQUE, VALUES_MAX, AnswerHead, Value
from pyromq._kernel.codec.bigend cimport load16, load32, load64
from pyromq._kernel.codec.crc32 cimport pyromq_crc32
from pyromq._kernel.codec.frames cimport READ, Frame, Span, find_field, read_frame, read_number
from pyromq._kernel.codec.inlets cimport Inlet
from pyromq._kernel.requests.signatures cimport Signatures
from pyromq._kernel.storage.tails cimport QueueTail

cdef enum:
    PULL_MESSAGE = 11
    LITE_PULL_MESSAGE = 361
    FLAG_RESPONSE = 1
    FLAG_ONEWAY = 2
    PULL_COMMITS = 1

    ENTRY_BYTES = 20
    SCANNED_ENTRIES_MIN = 800
    MAGIC_V1 = -626843481
    HEAD_BYTES = 88
    RECORD_BYTES_MIN = 91
    SYS_HOSTS_V6 = 48
    BLANK_SIZE = 0x7FFFFFFF
    INT32_MAX = 2147483647
    INT32_MIN = -2147483648
    FRAME_BYTES_MAX = 16777216
    KEY_FIELDS = 7
    KEY_BYTES_MAX = 4096
    VIEWS = 4

    HEAD_ROOM = 2048

    # What varies in an answer, behind its opaque.
    VALUE_NEXT = PART_FIRST
    VALUE_MIN = PART_FIRST + 1
    VALUE_MAX = PART_FIRST + 2


cdef struct View:
    #: The positions of the log that a file holds, and where they are mapped.
    int64_t base
    int64_t end
    Py_buffer buffer


cdef struct Run:
    const uint8_t *at
    Py_ssize_t length


cdef class PullPlan:
    """The plan that Python made for pulls of one kind."""

    cdef QueueTail queue
    cdef readonly object who
    cdef bytes topic
    cdef int32_t queue_id
    cdef int64_t *codes
    cdef Py_ssize_t code_count
    cdef bint wants_all
    #: What was answered since somebody asked: messages, their bytes, and pulls.
    cdef int64_t count, size, answers
    #: One number: the offset behind what was answered last.
    cdef array reached

    def __dealloc__(self):
        free(self.codes)

    cdef bint wants(self, int64_t code) noexcept:
        cdef Py_ssize_t i
        for i in range(self.code_count):
            if self.codes[i] == code:
                return True
        return False


cdef class Limits:
    """The limits of one answer in bytes and messages; they are lower for messages that are not in memory.

    A client that asks for more bytes gets up to `bulk_bytes`, as `store.reading.limits_of` says.
    """

    cdef int64_t bytes_in_memory, count_in_memory, bytes_on_disk, count_on_disk, bulk_bytes

    def __init__(
        self, *, int64_t bytes_in_memory, int64_t count_in_memory, int64_t bytes_on_disk,
        int64_t count_on_disk, int64_t bulk_bytes=0,
    ):
        self.bulk_bytes = bulk_bytes
        self.bytes_in_memory = bytes_in_memory
        self.count_in_memory = count_in_memory
        self.bytes_on_disk = bytes_on_disk
        self.count_on_disk = count_on_disk


cdef class Pulls:
    """Answers pulls. One for each broker."""

    #: With access control: what looks at each frame.
    cdef Signatures _signatures
    cdef dict _plans
    #: What plans answered that are forgotten, or were asked: (messages, bytes, pulls) by `who`.
    cdef dict _served
    cdef int64_t _gathered_count, _gathered_bytes
    #: Of the log, while pulls are answered.
    cdef int64_t _log_end, _written_from, _disk_position
    cdef View _views[VIEWS]
    cdef int _view_count
    cdef object _row
    cdef Run *_runs
    cdef Py_ssize_t _run_count, _runs_room
    cdef AnswerHead _head
    cdef Limits _limits

    def __init__(
        self, Limits limits not None, *, list answer_parts, list binary_parts, int language, int version
    ):
        self._limits = limits
        self._head = AnswerHead(
            parts=answer_parts, binary_parts=binary_parts, remark=b"FOUND", language=language, version=version
        )
        if self._head.bytes_max > HEAD_ROOM:
            raise ValueError("the heads of answers are too long")
        self._plans = {}
        self._served = {}

    def __dealloc__(self):
        self.release()
        free(self._runs)

    def guard(self, Signatures signatures):
        """Answer only what signatures let pass from now on; None: everything."""
        self._signatures = signatures

    def learn(
        self,
        bytes key not None,
        QueueTail queue not None,
        bytes topic not None,
        int32_t queue_id,
        codes,
        who,
        array reached not None,
    ):
        """Answer pulls of this kind from now on; `codes` are the tags codes that are wanted, None for all.

        `reached` has one int64, which says from then on which offset is behind the answers.
        """
        cdef PullPlan plan = PullPlan()
        cdef Py_ssize_t i = 0
        if reached.typecode != "q" or len(reached) != 1:
            raise ValueError("one int64 says what was reached")
        plan.queue = queue
        plan.reached = reached
        plan.topic = topic
        plan.queue_id = queue_id
        plan.who = who
        plan.wants_all = codes is None
        if codes is not None:
            plan.codes = <int64_t *> malloc(max(len(codes), 1) * sizeof(int64_t))
            if plan.codes == NULL:
                raise MemoryError
            for code in codes:
                plan.codes[i] = code
                i += 1
            plan.code_count = i
        self._note(self._plans.get(key))
        self._plans[key] = plan

    def forget_all(self):
        """Leave all pulls to Python, until they are learnt again."""
        if self._plans:
            for plan in self._plans.values():
                self._note(plan)
            self._plans = {}

    def take_served(self):
        """Return (messages, bytes, pulls) by what was learnt as `who`, since the last time this was asked."""
        for plan in self._plans.values():
            self._note(plan)
        served = self._served
        self._served = {}
        return served

    cdef _note(self, PullPlan plan):
        if plan is None or not plan.answers:
            return
        count, size, answers = self._served.get(plan.who, (0, 0, 0))
        self._served[plan.who] = (count + plan.count, size + plan.size, answers + plan.answers)
        plan.count = plan.size = plan.answers = 0

    @property
    def plan_count(self):
        """The number of known kinds of pulls."""
        return len(self._plans)

    cpdef release(self):
        """Let the files of the log go that were looked into."""
        cdef int i
        for i in range(self._view_count):
            PyBuffer_Release(&self._views[i].buffer)
        self._view_count = 0
        self._row = None

    def answer(self, list inlets not None, *, log, int64_t disk_position):
        """Answer the pulls at the front of inlets; return how many, and commits.

        A commit is what was learnt as `who`, and an offset.
        """
        cdef list commits = []
        cdef Py_ssize_t count = 0
        cdef Inlet inlet
        if self._row is not log.segments:
            self.release()
            self._row = log.segments
        self._log_end, self._written_from, self._disk_position = log.end, log.written_from, disk_position
        for inlet in inlets:
            count += self._answer_inlet(inlet, log, commits)
        return count, commits

    cdef Py_ssize_t _answer_inlet(self, Inlet inlet, log, list commits) except -1:
        """Answer the pulls at the front of one inlet; see `answer`."""
        cdef const uint8_t *begin
        cdef const uint8_t *at
        cdef const uint8_t *end
        cdef Frame frame
        cdef Py_ssize_t count = 0
        cdef bytes answer
        # Nobody lets go of it while it is read.
        received = inlet.received
        inlet.look(&begin, &end)
        at = begin
        while at < end and inlet.room() > 0:
            if read_frame(at, end, &frame) != READ:
                break
            if frame.code != PULL_MESSAGE and frame.code != LITE_PULL_MESSAGE:
                break
            if frame.flag & (FLAG_RESPONSE | FLAG_ONEWAY):
                break
            if frame.body_length:
                # No client sends one; how long it may be stands on the route.
                break
            if self._signatures is not None and not self._signatures.allows(&frame, inlet.peer_host_bytes):
                break
            answer = self._pull(&frame, log, commits)
            if answer is None:
                break
            inlet.send_frames(answer)
            at = frame.end
            count += 1
        if count:
            inlet.skip_to(inlet.start + (at - begin))
        return count

    cdef bytes _pull(self, Frame *frame, log, list commits):
        """Return the answer to one pull, None when it is Python's."""
        cdef int64_t offset, count_max, flags, commit, ignored, bytes_max = 0
        cdef PullPlan plan
        cdef bytes key, entries
        cdef QueueTail queue
        cdef Span *field
        if not _number(frame, b"queueOffset", 11, False, &offset):
            return None
        if not _number(frame, b"commitOffset", 12, False, &commit):
            return None
        if not _number(frame, b"suspendTimeoutMillis", 20, False, &ignored):
            return None
        if not _number(frame, b"maxMsgNums", 10, False, &count_max) or not _is_int32(count_max):
            return None
        if not _number(frame, b"sysFlag", 7, False, &flags) or not _is_int32(flags):
            return None
        if not _number(frame, b"maxMsgBytes", 11, True, &bytes_max) or not _is_int32(bytes_max):
            return None
        if not _number(frame, b"requestSource", 13, True, &ignored) or not _is_int32(ignored):
            return None
        field = find_field(frame, b"bname", 5)
        if field != NULL and field.is_escaped:
            return None
        key = _key_of(frame)
        found = self._plans.get(key) if key is not None else None
        if found is None:
            return None
        plan = <PullPlan> found
        queue = plan.queue
        count_max = max(count_max, <int64_t> 1)
        if queue.gone or offset >= queue.end or offset < <int64_t> queue.min_offset:
            return None
        if plan.wants_all:
            entries = queue.read(offset, count_max)
        else:
            entries = queue.read(offset, max(count_max, <int64_t> SCANNED_ENTRIES_MIN))
        passed = self._gather(plan, entries, offset, count_max, bytes_max, log)
        if passed <= 0:
            return None
        answer = self._encode(frame, offset + passed, queue.min_offset, queue.end)
        if answer is not None:
            plan.count += self._gathered_count
            plan.size += self._gathered_bytes
            plan.answers += 1
            plan.reached.data.as_longlongs[0] = offset + passed
            if flags & PULL_COMMITS:
                commits.append((plan.who, commit))
        return answer

    cdef int64_t _gather(
        self, PullPlan plan, bytes entries, int64_t offset, int64_t count_max, int64_t bytes_max, log
    ) except -2:
        """Find the wanted records; return how many entries were passed, -1 when anything is not as usual."""
        cdef const uint8_t *entry = <const uint8_t *> PyBytes_AS_STRING(entries)
        cdef Py_ssize_t entry_count = PyBytes_GET_SIZE(entries) // ENTRY_BYTES
        cdef Py_ssize_t i
        cdef int64_t position, size, count = 0, total = 0, kind_bytes, kind_count
        cdef const uint8_t *record
        cdef Limits limits = self._limits
        cdef int64_t bulk_bytes = min(bytes_max, limits.bulk_bytes)
        cdef bint is_bulk = bulk_bytes > limits.bytes_in_memory
        cdef int64_t disk_position = self._disk_position
        self._run_count = 0
        for i in range(entry_count):
            position = load64(entry)
            size = load32(entry + 8)
            if size <= 0 or size == BLANK_SIZE or position < 0:
                return -1
            if count:
                if is_bulk:
                    kind_bytes = bulk_bytes // 4 if position < disk_position else bulk_bytes
                    kind_count = count_max
                elif position < disk_position:
                    kind_bytes, kind_count = limits.bytes_on_disk, limits.count_on_disk
                else:
                    kind_bytes, kind_count = limits.bytes_in_memory, limits.count_in_memory
                if count >= count_max or total + size > kind_bytes or count >= kind_count:
                    self._gathered_count, self._gathered_bytes = count, total
                    return i
            if plan.wants_all or plan.wants(load64(entry + 12)):
                if position + size > self._log_end:
                    return -1
                record = self._look(position, size, log)
                if record == NULL:
                    return -1
                if position < self._written_from and not _is_whole(
                    record, size, position, plan.topic, plan.queue_id, offset + i
                ):
                    return -1
                if self._run_count and (
                    self._runs[self._run_count - 1].at + self._runs[self._run_count - 1].length == record
                ):
                    self._runs[self._run_count - 1].length += size
                else:
                    self._add_run(record, size)
                count += 1
                total += size
            entry += ENTRY_BYTES
        self._gathered_count, self._gathered_bytes = count, total
        return entry_count if count else -1

    cdef int _add_run(self, const uint8_t *record, Py_ssize_t size) except -1:
        cdef Run *runs
        if self._run_count == self._runs_room:
            runs = <Run *> realloc(self._runs, (2 * self._runs_room + 64) * sizeof(Run))
            if runs == NULL:
                raise MemoryError
            self._runs = runs
            self._runs_room = 2 * self._runs_room + 64
        self._runs[self._run_count].at = record
        self._runs[self._run_count].length = size
        self._run_count += 1
        return 0

    cdef const uint8_t *_look(self, int64_t position, int64_t size, log) except? NULL:
        """Return where a record of the log is in memory, NULL when it is not in one file."""
        cdef int i
        cdef View *view
        for i in range(self._view_count):
            view = &self._views[i]
            if view.base <= position < view.end:
                if position + size > view.end:
                    return NULL
                return <const uint8_t *> view.buffer.buf + (position - view.base)
        segment = log.segment_at(position)
        if segment is None or position + size > segment.end:
            return NULL
        if self._view_count == VIEWS:
            PyBuffer_Release(&self._views[0].buffer)
            for i in range(VIEWS - 1):
                self._views[i] = self._views[i + 1]
            self._view_count -= 1
            # Runs that were found before may point into what was let go.
            if self._run_count:
                return NULL
        view = &self._views[self._view_count]
        PyObject_GetBuffer(segment.map, &view.buffer, PyBUF_SIMPLE)
        view.base = segment.base
        view.end = min(<int64_t> segment.end, view.base + view.buffer.len)
        self._view_count += 1
        if position + size > view.end:
            return NULL
        return <const uint8_t *> view.buffer.buf + (position - view.base)

    cdef bytes _encode(self, Frame *frame, int64_t next_offset, int64_t min_offset, int64_t max_offset):
        cdef uint8_t head[HEAD_ROOM]
        cdef Value values[VALUES_MAX]
        cdef uint8_t *at
        cdef Py_ssize_t i, body_length = 0, head_length
        cdef bytes answer
        for i in range(self._run_count):
            body_length += self._runs[i].length
        for i in range(VALUES_MAX):
            values[i].text = NULL
        values[PART_OPAQUE].number = frame.opaque
        values[VALUE_NEXT].number = next_offset
        values[VALUE_MIN].number = min_offset
        values[VALUE_MAX].number = max_offset
        head_length = self._head.write(head, frame, values, body_length) - head
        if head_length + body_length > FRAME_BYTES_MAX:
            return None
        answer = PyBytes_FromStringAndSize(NULL, head_length + body_length)
        at = <uint8_t *> PyBytes_AS_STRING(answer)
        memcpy(at, head, head_length)
        at += head_length
        for i in range(self._run_count):
            memcpy(at, self._runs[i].at, self._runs[i].length)
            at += self._runs[i].length
        return answer


cdef bytes _key_of(Frame *frame):
    """Return what pulls of one kind have in common, None when a part of it is missing or unusual."""
    cdef uint8_t key[KEY_BYTES_MAX]
    cdef uint8_t *at = key
    cdef Span *field
    cdef int64_t number
    cdef int i
    for i in range(KEY_FIELDS):
        if i == 0:
            field = find_field(frame, b"consumerGroup", 13)
        elif i == 1:
            field = find_field(frame, b"topic", 5)
        elif i == 2:
            field = find_field(frame, b"queueId", 7)
        elif i == 3:
            field = find_field(frame, b"sysFlag", 7)
        elif i == 4:
            field = find_field(frame, b"subVersion", 10)
        elif i == 5:
            field = find_field(frame, b"subscription", 12)
        else:
            field = find_field(frame, b"expressionType", 14)
        if field == NULL and i < 5:
            return None
        if 2 <= i <= 4 and not read_number(field, -(1 << 62), 1 << 62, &number):
            return None
        if field != NULL:
            if field.is_escaped or field.length + 1 > key + KEY_BYTES_MAX - at:
                return None
            if field.length and memchr(field.at, 0, field.length) != NULL:
                return None
            memcpy(at, field.at, field.length)
            at += field.length
        elif at == key + KEY_BYTES_MAX:
            return None
        at[0] = 0
        at += 1
    return PyBytes_FromStringAndSize(<char *> key, at - key)


cdef bint _number(Frame *frame, const char *name, Py_ssize_t length, bint is_optional, int64_t *number) noexcept:
    cdef Span *field = find_field(frame, name, length)
    if field == NULL:
        number[0] = 0
        return is_optional
    return read_number(field, -(1 << 62), 1 << 62, number)


cdef inline bint _is_int32(int64_t number) noexcept:
    return INT32_MIN <= number <= INT32_MAX


cdef bint _is_whole(
    const uint8_t *record, int64_t size, int64_t position, bytes topic, int32_t queue_id, int64_t offset
) noexcept:
    """Whether a record that was found at the start is the one that a queue means, and its checksum right."""
    cdef Py_ssize_t topic_length = PyBytes_GET_SIZE(topic)
    cdef int64_t body_length, rest
    cdef const uint8_t *at
    if size < RECORD_BYTES_MIN + topic_length or load32(record) != size or load32(record + 4) != MAGIC_V1:
        return False
    if load32(record + 12) != queue_id or load64(record + 20) != offset or load64(record + 28) != position:
        return False
    body_length = load32(record + 84)
    if load32(record + 36) & SYS_HOSTS_V6 or body_length < 0:
        return False
    rest = size - HEAD_BYTES - body_length - 1 - topic_length - 2
    if rest < 0:
        return False
    at = record + HEAD_BYTES + body_length
    if at[0] != topic_length or memcmp(at + 1, PyBytes_AS_STRING(topic), topic_length) != 0:
        return False
    if load16(at + 1 + topic_length) != rest:
        return False
    return <int32_t> (pyromq_crc32(0, record + HEAD_BYTES, body_length) & 0x7FFFFFFF) == load32(record + 8)
