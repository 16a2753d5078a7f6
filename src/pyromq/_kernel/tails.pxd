"""The growing ends of queues and index, for whoever appends to them."""

from libc.stdint cimport int64_t


cdef class QueueTail:
    cdef public int64_t end, reach
    cdef public bytearray held
    #: Whether pulls wait for the queue.
    cdef public bint watched
    #: Messages that are planned and not yet in the log.
    cdef int64_t planned

    cpdef void append(self, int64_t position, int size, int64_t tags_code)
