"""Reading a queue for a pull: records are copied from the log into the answer, never decoded.

`pyromq.store.reading` and `PullHandlers` are the same in Python and say what each limit means. Anything that is
not as usual, a damaged record, a file that is gone, an offset that is not there, is READ_UNUSUAL: Python's.
"""

from cpython.array cimport array
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memcpy

from pyromq._kernel.codec.answers cimport PART_FIRST, PART_OPAQUE, VALUES_MAX, AnswerHead, Value
from pyromq._kernel.codec.bigend cimport load16, load32, load64
from pyromq._kernel.codec.crc32 cimport pyromq_crc32
from pyromq._kernel.codec.frames cimport Frame
from pyromq._kernel.storage.tails cimport QueueTail

cdef enum:
    ENTRY_BYTES = 20
    SCANNED_ENTRIES_MIN = 800
    MAGIC_V1 = -626843481
    HEAD_BYTES = 88
    RECORD_BYTES_MIN = 91
    SYS_HOSTS_V6 = 48
    BLANK_SIZE = 0x7FFFFFFF
    FRAME_BYTES_MAX = 16777216
    HEAD_ROOM = 2048

    # What varies in an answer, behind its opaque.
    VALUE_BROKER = PART_FIRST
    VALUE_NEXT = PART_FIRST + 1
    VALUE_MIN = PART_FIRST + 2
    VALUE_MAX = PART_FIRST + 3


cdef class PullPlan:
    """The plan that Python made for pulls of one kind: those that differ in offsets and counts only.

    `codes` are the tags codes that are wanted, None for all. `reached` has one int64, which says from then on
    which offset is behind the answers. `revision` has one too; when it is another, the plan no longer holds.
    """

    def __init__(
        self, QueueTail queue not None, *, header, codes, tuple broker_ids not None, dict offsets, name,
        array reached not None, array revision not None,
    ):
        cdef Py_ssize_t i = 0
        for one in (reached, revision):
            if one.typecode != "q" or len(one) != 1:
                raise ValueError("one int64 says what was reached, and which revision holds")
        self.queue = queue
        self.header = header
        self.who = (header.consumer_group, header.topic, header.queue_id)
        self.queue_id = header.queue_id
        self.topic = header.topic.encode()
        self.broker_ids[0], self.broker_ids[1] = broker_ids
        self.offsets = offsets
        self.name = name
        self.reached = reached
        self.revision = revision
        self.learnt_revision = revision.data.as_longlongs[0]
        self.wants_all = codes is None
        if codes is not None:
            self.codes = <int64_t *> malloc(max(len(codes), 1) * sizeof(int64_t))
            if self.codes == NULL:
                raise MemoryError
            for code in codes:
                self.codes[i] = code
                i += 1
            self.code_count = i

    def __dealloc__(self):
        free(self.codes)

    cdef bint wants(self, int64_t code) noexcept:
        cdef Py_ssize_t i
        for i in range(self.code_count):
            if self.codes[i] == code:
                return True
        return False

    cdef bint holds(self) noexcept:
        """Whether what Python decided still stands."""
        return not self.is_forgotten and self.revision.data.as_longlongs[0] == self.learnt_revision


cdef class Limits:
    """The limits of one answer in bytes and messages; they are lower for messages that are not in memory.

    A client that asks for more bytes gets up to `bulk_bytes`, as `store.reading.limits_of` says.
    """

    def __init__(
        self, *, int64_t bytes_in_memory, int64_t count_in_memory, int64_t bytes_on_disk,
        int64_t count_on_disk, int64_t bulk_bytes=0,
    ):
        self.bulk_bytes = bulk_bytes
        self.bytes_in_memory = bytes_in_memory
        self.count_in_memory = count_in_memory
        self.bytes_on_disk = bytes_on_disk
        self.count_on_disk = count_on_disk


cdef class PullReader:
    """Reads queues and writes answers. `answers` are code, remark and JSON of each result, in their order."""

    def __init__(
        self, Limits limits not None, *, list answers not None, list binary_parts not None, int language, int version
    ):
        if len(answers) != READ_RESULTS:
            raise ValueError("each result has an answer")
        self.limits = limits
        self._heads = [
            AnswerHead(
                parts=parts, binary_parts=binary_parts, remark=remark, language=language, version=version, code=code
            )
            for code, remark, parts in answers
        ]
        cdef AnswerHead head
        for head in self._heads:
            if head.bytes_max > HEAD_ROOM:
                raise ValueError("the heads of answers are too long")

    def __dealloc__(self):
        self.release()
        free(self._runs)

    cpdef release(self):
        """Let the files of the log go that were looked into."""
        cdef int i
        for i in range(self._view_count):
            PyBuffer_Release(&self._views[i].buffer)
        self._view_count = 0
        self._row = None
        self._log = None

    cdef int look_at(self, log, int64_t readable, int64_t disk_position) except -1:
        """Read this log from now on: nothing behind a position, and what is before the other is on disk only."""
        if self._row is not log.segments:
            self.release()
            self._row = log.segments
        self._log = log
        self.log_end, self.written_from = log.end, log.written_from
        self.disk_position, self.readable = disk_position, readable
        return 0

    cdef int64_t readable_end(self, QueueTail queue) except -1:
        """Return the offset of the first message of a queue that may not be read yet."""
        cdef const uint8_t *start
        cdef const uint8_t *at
        cdef int64_t end = queue.end, size
        if queue.reach <= self.readable:
            return end
        start = <const uint8_t *> PyByteArray_AS_STRING(queue.held)
        at = start + PyByteArray_GET_SIZE(queue.held)
        while at - start >= ENTRY_BYTES:
            at -= ENTRY_BYTES
            size = load32(at + 8)
            if size <= 0 or size == BLANK_SIZE:
                break
            if load64(at) + size <= self.readable:
                return end
            end -= 1
        return queue.end_before(self.readable)

    cdef int read(self, PullPlan plan, int64_t offset, int64_t count_max, int64_t bytes_max) except -2:
        """Find what a pull from an offset gets, and note it for `answer`; return what it came to."""
        cdef QueueTail queue = plan.queue
        cdef int64_t end, scanned
        cdef bytes entries
        cdef int result
        self._run_count = 0
        self._is_slow = False
        self._gathered_count = self._gathered_bytes = 0
        if queue.gone or offset < <int64_t> queue.min_offset:
            return READ_UNUSUAL
        end = self._end = self.readable_end(queue)
        self._next_offset = offset
        if offset >= end:
            if offset > queue.end:
                return READ_UNUSUAL
            return READ_NOTHING_YET if queue.end else READ_EMPTY_QUEUE
        count_max = max(count_max, <int64_t> 1)
        scanned = count_max if plan.wants_all else max(count_max, <int64_t> SCANNED_ENTRIES_MIN)
        entries = queue.entries(offset, min(end - offset, scanned))
        return self._gather(plan, entries, offset, count_max, bytes_max)

    cdef bytes answer(self, PullPlan plan, int result, bint is_json, int32_t opaque):
        """Return the answer to the pull that was read last, None when it fits no frame; count it."""
        cdef uint8_t head[HEAD_ROOM]
        cdef Value values[VALUES_MAX]
        cdef Frame request
        cdef uint8_t *at
        cdef Py_ssize_t i, body_length = 0, head_length
        cdef bytes answer
        for i in range(self._run_count):
            body_length += self._runs[i].length
        for i in range(VALUES_MAX):
            values[i].text = NULL
        # All that an answer has of its request.
        request.is_json = is_json
        request.opaque = opaque
        values[PART_OPAQUE].number = opaque
        values[VALUE_BROKER].number = plan.broker_ids[1 if self._is_slow else 0]
        values[VALUE_NEXT].number = self._next_offset
        values[VALUE_MIN].number = plan.queue.min_offset
        values[VALUE_MAX].number = self._end
        head_length = (<AnswerHead> self._heads[result]).write(head, &request, values, body_length) - head
        if head_length + body_length > FRAME_BYTES_MAX:
            return None
        answer = PyBytes_FromStringAndSize(NULL, head_length + body_length)
        at = <uint8_t *> PyBytes_AS_STRING(answer)
        memcpy(at, head, head_length)
        at += head_length
        for i in range(self._run_count):
            memcpy(at, self._runs[i].at, self._runs[i].length)
            at += self._runs[i].length
        if result == READ_FOUND:
            plan.count += self._gathered_count
            plan.size += self._gathered_bytes
            plan.answers += 1
            plan.reached.data.as_longlongs[0] = self._next_offset
        else:
            self.note_missed(plan)
        return answer

    cdef int note_missed(self, PullPlan plan) except -1:
        """Count the pull that was read last: it found nothing."""
        plan.missed += 1
        plan.reached.data.as_longlongs[0] = self._next_offset
        return 0

    cdef int _gather(self, PullPlan plan, bytes entries, int64_t offset, int64_t count_max, int64_t bytes_max) except -2:
        """Find the wanted records among entries; see `read`."""
        cdef const uint8_t *entry = <const uint8_t *> PyBytes_AS_STRING(entries)
        cdef Py_ssize_t entry_count = PyBytes_GET_SIZE(entries) // ENTRY_BYTES
        cdef Py_ssize_t i, passed = entry_count
        cdef int64_t position = 0, size, count = 0, total = 0, kind_bytes, kind_count
        cdef const uint8_t *record
        cdef Limits limits = self.limits
        cdef int64_t bulk_bytes = min(bytes_max, limits.bulk_bytes)
        cdef bint is_bulk = bulk_bytes > limits.bytes_in_memory
        cdef int64_t disk_position = self.disk_position
        if not entry_count:
            return READ_UNUSUAL
        for i in range(entry_count):
            position = load64(entry)
            size = load32(entry + 8)
            if size <= 0 or size == BLANK_SIZE or position < 0:
                return READ_UNUSUAL
            if count:
                if is_bulk:
                    kind_bytes = bulk_bytes // 4 if position < disk_position else bulk_bytes
                    kind_count = count_max
                elif position < disk_position:
                    kind_bytes, kind_count = limits.bytes_on_disk, limits.count_on_disk
                else:
                    kind_bytes, kind_count = limits.bytes_in_memory, limits.count_in_memory
                if count >= count_max or total + size > kind_bytes or count >= kind_count:
                    passed = i
                    break
            if plan.wants_all or plan.wants(load64(entry + 12)):
                if position + size > self.log_end:
                    return READ_UNUSUAL
                record = self._look(position, size)
                if record == NULL:
                    return READ_UNUSUAL
                if position < self.written_from and not _is_whole(
                    record, size, position, plan.topic, plan.queue_id, offset + i
                ):
                    return READ_UNUSUAL
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
        self._next_offset = offset + passed
        # The last entry that was looked at says how far behind the reader is.
        self._is_slow = position < disk_position
        return READ_FOUND if count else READ_NO_MATCH

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

    cdef const uint8_t *_look(self, int64_t position, int64_t size) except? NULL:
        """Return where a record of the log is in memory, NULL when it is not in one file."""
        cdef int i
        cdef View *view
        for i in range(self._view_count):
            view = &self._views[i]
            if view.base <= position < view.end:
                if position + size > view.end:
                    return NULL
                return <const uint8_t *> view.buffer.buf + (position - view.base)
        segment = self._log.segment_at(position)
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
