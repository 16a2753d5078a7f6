"""The growing ends of queues and index, for whoever appends to them."""

from cpython.buffer cimport Py_buffer
from libc.stdint cimport int32_t, int64_t, uint8_t


cdef class QueueTail:
    cdef public int64_t end, reach
    cdef public bytearray held
    cdef public list dirty
    cdef public bint watched, followed, gone
    #: Messages that are planned and not yet in the log.
    cdef int64_t planned
    #: The end before the messages that are applied right now, -1 when there are none.
    cdef int64_t grown_from

    cdef int enter(self, int64_t position, int32_t size, int64_t tags_code) except -1
    cdef bytes entries(self, int64_t offset, int64_t count)


cdef struct HeldSlot:
    int32_t slot
    int32_t number


cdef class IndexTail:
    cdef public int64_t begin_at_ms, end_at_ms, begin_position, end_position
    cdef public int64_t slots, slots_used, count, entries_max
    cdef public bytearray held
    cdef object _look
    cdef Py_buffer _view
    #: An open-addressing table from slot to entry number: pairs, slot -1 where it is free.
    cdef int32_t *_table
    cdef Py_ssize_t _table_size, _table_used
    #: The slots that were noted to be written, in their order, how many were given, and the count of entries then.
    cdef HeldSlot *_noted
    cdef Py_ssize_t _noted_count, _noted_at
    cdef int64_t _noted_before

    cdef int enter(self, int64_t key_hash, int64_t position, int64_t stored_at_ms) except -1
    cdef void expect(self, int64_t key_hash) noexcept
    cdef int64_t find(self, int64_t slot) noexcept
    cdef int _hold(self, int32_t slot, int32_t number) except -1
    cdef int _grow_table(self) except -1
    cdef tuple _part(self, HeldSlot *held, Py_ssize_t count)
