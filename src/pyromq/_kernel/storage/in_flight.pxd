"""Messages in flight: the columns of a queue, and what ends a message of one."""

from libc.stdint cimport int32_t, int64_t, uint8_t


cdef class Tally:
    cdef public int64_t count, revision, acknowledged


cdef class InFlight:
    cdef int64_t *_offset
    cdef int64_t *_popped_at
    cdef int64_t *_visible_at
    cdef int32_t *_client
    cdef uint8_t *_is_open
    cdef Py_ssize_t _size, _room, _head
    cdef readonly Py_ssize_t count
    cdef Tally _tally
    cdef public list noted

    cdef Py_ssize_t _checked(self, Py_ssize_t at) except -1
    cdef Py_ssize_t lower(self, int64_t offset) noexcept
    cdef Py_ssize_t place(self, int64_t offset) noexcept
    cdef int close(self, Py_ssize_t at) except -1
    cdef int _fit(self, Py_ssize_t room) except -1
    cdef int _shrink(self) except -1
    cdef int _drop_front(self) except -1
    cdef int _keep_open(self) except -1


cdef class DeliveryEnding:
    cdef InFlight in_flight
    cdef object _note

    cdef bint has(self, int64_t offset, int64_t popped_at_ms) noexcept
    cdef bint end(self, int64_t offset, int64_t popped_at_ms) except -1
