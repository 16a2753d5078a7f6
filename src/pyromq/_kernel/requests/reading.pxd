"""Reading a queue for a pull: what it gets, and the bytes of its answer."""

from cpython.array cimport array
from cpython.buffer cimport Py_buffer
from libc.stdint cimport int32_t, int64_t, uint8_t

from pyromq._kernel.storage.tails cimport QueueTail

cdef enum:
    VIEWS = 4

    #: What a read came to; the number of an answer's head.
    READ_UNUSUAL = -1
    READ_FOUND = 0
    READ_NO_MATCH = 1
    READ_NOTHING_YET = 2
    READ_EMPTY_QUEUE = 3
    READ_RESULTS = 4


cdef struct View:
    #: The positions of the log that a file holds, and where they are mapped.
    int64_t base
    int64_t end
    Py_buffer buffer


cdef struct Run:
    const uint8_t *at
    Py_ssize_t length


cdef class PullPlan:
    cdef QueueTail queue
    #: The header that Python let through, and its group, topic and queue id.
    cdef readonly object header, who
    cdef object queue_id
    cdef bytes topic
    cdef int64_t *codes
    cdef Py_ssize_t code_count
    cdef bint wants_all
    #: The brokers that answers suggest: the usual one, and one for messages that left the memory.
    cdef int64_t broker_ids[2]
    #: The group's offsets in the topic, the table's own, and the table's name for them; None: commits are
    #: not taken here, or there is no offset yet.
    cdef public dict offsets
    cdef readonly object name
    #: One number: the offset behind what was answered last.
    cdef array reached
    #: One number that changes with the group's subscriptions, and what it was when this was made.
    cdef array revision
    cdef int64_t learnt_revision
    cdef bint is_forgotten
    #: What was answered since somebody asked: messages, their bytes, pulls that found some or none.
    cdef int64_t count, size, answers, missed

    cdef bint wants(self, int64_t code) noexcept
    cdef bint holds(self) noexcept


cdef class Limits:
    cdef int64_t bytes_in_memory, count_in_memory, bytes_on_disk, count_on_disk, bulk_bytes


cdef class PullReader:
    cdef public Limits limits
    #: Of the log, while pulls are answered.
    cdef int64_t log_end, written_from, disk_position, readable
    cdef object _log
    cdef View _views[VIEWS]
    cdef int _view_count
    cdef object _row
    #: What the last read found.
    cdef Run *_runs
    cdef Py_ssize_t _run_count, _runs_room
    cdef int64_t _next_offset, _end, _gathered_count, _gathered_bytes
    cdef bint _is_slow
    #: By what a read came to.
    cdef list _heads

    cpdef release(self)
    cdef int look_at(self, log, int64_t readable, int64_t disk_position) except -1
    cdef int64_t readable_end(self, QueueTail queue) except -1
    cdef int read(self, PullPlan plan, int64_t offset, int64_t count_max, int64_t bytes_max) except -2
    cdef bytes answer(self, PullPlan plan, int result, bint is_json, int32_t opaque)
    cdef int note_missed(self, PullPlan plan) except -1
    cdef int _gather(self, PullPlan plan, bytes entries, int64_t offset, int64_t count_max, int64_t bytes_max) except -2
    cdef int _add_run(self, const uint8_t *record, Py_ssize_t size) except -1
    cdef const uint8_t *_look(self, int64_t position, int64_t size) except? NULL
