"""The log's files, looked into where they are mapped."""

from cpython.buffer cimport Py_buffer
from libc.stdint cimport int64_t, uint8_t

from pyromq._kernel.codec.layout cimport Plain

cdef enum:
    VIEWS = 4


cdef struct View:
    #: The positions of the log that a file holds, and where they are mapped.
    int64_t base
    int64_t end
    Py_buffer buffer


cdef class LogViews:
    cdef object _log
    #: Where the log ended when the looking began, and from where on this process wrote it.
    cdef int64_t end, written_from
    cdef View _views[VIEWS]
    cdef int _count

    cdef int begin(self, log) except -1
    cdef int release(self) noexcept
    cdef const uint8_t *find(self, int64_t position, int64_t *left) except? NULL
    cdef bint read(self, int64_t position, Plain *record) except -1
