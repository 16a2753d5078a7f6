"""A call whose request is there as a whole, for modules that look at calls."""

from libc.stdint cimport int32_t


cdef class PlainCall:
    cdef public object _link, method, metadata, peer, peer_host_bytes, opened_at, deadline, on_over
    cdef public object _handler, _request, _stream, _task, _timer
    cdef public int32_t stream_id
    cdef public bint is_over

    cdef int begin_at(self, link, int32_t stream_id, path, metadata, opened_at) except -1
    cdef int do_now(self, methods, bytes request) except -1
    cdef int answer_now(self, bytes answer) except -1
    cdef int end_now(self) except -1
