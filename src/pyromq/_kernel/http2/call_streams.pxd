"""One stream of a session: what arrived of it, and what waits to be sent."""

from libc.stdint cimport int32_t, uint8_t

from pyromq._kernel.codec.blocks cimport Block


cdef str path_of(const char *path, Py_ssize_t size)
cdef int put_header(
    Block *headers, const uint8_t *name, Py_ssize_t name_size, const uint8_t *value, Py_ssize_t value_size
) except -1


cdef class CallHeaders:
    #: Of each: the lengths of its name and of its value in four bytes each, and both.
    cdef bytes packed

    cdef const uint8_t *find(self, const char *name, Py_ssize_t length, Py_ssize_t *size) noexcept


cdef class CallStream:
    cdef int32_t stream_id
    #: What is told of a call when its headers are there, and how many bytes of them there were.
    cdef str path
    cdef Py_ssize_t header_bytes
    cdef bint is_post
    #: A message of which a part arrived; None: there is none.
    cdef bytearray partial
    #: What waits to be sent, from which of it on, and from which byte of that one.
    cdef list out
    cdef Py_ssize_t out_bytes, out_first, out_at
    #: What is said behind it, once the call is finished.
    cdef bytes status, text
    #: Its headers are told, or answered; all is said; nghttp2 waits for more; what arrives is of no interest;
    #: the client has sent all; it was reset by us, or by the client.
    cdef bint is_open, has_headers, is_finished, is_deferred, is_deaf, is_done, is_reset, is_reset_by_peer

    cdef Py_ssize_t queue(self, bytes message) except -1
    cdef Py_ssize_t queue_framed(self, bytes messages) except -1
    cdef Py_ssize_t copy_out(self, uint8_t *into, Py_ssize_t room) except -1
    cdef Py_ssize_t drop_out(self) except -1
    cdef int add_partial(self, const uint8_t *data, Py_ssize_t size) except -1
