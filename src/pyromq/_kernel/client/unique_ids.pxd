"""The unique ids of messages."""

from libc.stdint cimport int64_t, uint8_t, uint32_t

cdef enum:
    #: Of an id with an IPv6 address.
    ID_CHARACTERS_MAX = 56


cdef class UniqueIds:
    cdef bytes _prefix
    cdef uint32_t _count
    cdef int64_t _month_starts_ms, _month_ends_ms

    cdef Py_ssize_t write(self, uint8_t *at, int64_t now_ms) except -1
