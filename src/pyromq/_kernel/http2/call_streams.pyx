"""One stream of a session: what arrived of it, and what waits to be sent.

`_Stream` of `pyromq.net.http2.grpc_session` is the same in Python.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_SIZE
from libc.stdint cimport uint8_t
from libc.string cimport memcpy

cdef enum:
    PREFIX_BYTES = 5


cdef class CallStream:
    """A stream, as its session keeps it."""

    def __cinit__(self):
        self.pseudo = {}
        self.metadata = {}
        self.out = []

    cdef Py_ssize_t queue(self, bytes message) except -1:
        """Keep a message to be sent; return the bytes that it takes."""
        cdef Py_ssize_t size = PyBytes_GET_SIZE(message)
        cdef uint8_t prefix[PREFIX_BYTES]
        prefix[0] = 0
        prefix[1] = <uint8_t> (size >> 24)
        prefix[2] = <uint8_t> (size >> 16)
        prefix[3] = <uint8_t> (size >> 8)
        prefix[4] = <uint8_t> size
        self.out.append(PyBytes_FromStringAndSize(<const char *> prefix, PREFIX_BYTES))
        if size:
            self.out.append(message)
        self.out_bytes += PREFIX_BYTES + size
        return PREFIX_BYTES + size

    cdef Py_ssize_t queue_framed(self, bytes messages) except -1:
        """Keep messages to be sent that have their prefixes; return the bytes that they take."""
        if PyBytes_GET_SIZE(messages):
            self.out.append(messages)
            self.out_bytes += PyBytes_GET_SIZE(messages)
        return PyBytes_GET_SIZE(messages)

    cdef Py_ssize_t copy_out(self, uint8_t *into, Py_ssize_t room) except -1:
        """Copy what is sent next, as far as there is room; return how much it was."""
        cdef Py_ssize_t size, copied = 0
        cdef bytes piece
        while self.out_first < PyList_GET_SIZE(self.out) and copied < room:
            piece = self.out[self.out_first]
            size = min(PyBytes_GET_SIZE(piece) - self.out_at, room - copied)
            memcpy(into + copied, PyBytes_AS_STRING(piece) + self.out_at, size)
            copied += size
            self.out_at += size
            if self.out_at == PyBytes_GET_SIZE(piece):
                self.out[self.out_first] = None
                self.out_first += 1
                self.out_at = 0
        self.out_bytes -= copied
        if not self.out_bytes and self.out_first:
            self.out = []
            self.out_first = 0
        return copied

    cdef Py_ssize_t drop_out(self) except -1:
        """Forget what was not sent; return how much it was."""
        cdef Py_ssize_t dropped = self.out_bytes
        self.out = []
        self.out_bytes = self.out_first = self.out_at = 0
        return dropped

    cdef int add_partial(self, const uint8_t *data, Py_ssize_t size) except -1:
        """Keep bytes of a message behind those that there are."""
        cdef Py_ssize_t length
        if self.partial is None:
            self.partial = bytearray()
        length = PyByteArray_GET_SIZE(self.partial)
        PyByteArray_Resize(self.partial, length + size)
        memcpy(PyByteArray_AS_STRING(self.partial) + length, data, size)
        return 0
