"""One stream of a session: what arrived of it, and what waits to be sent.

`_Stream` of `pyromq.net.http2.grpc_session` is the same in Python.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeLatin1
from libc.stdint cimport int32_t, uint8_t
from libc.string cimport memcmp, memcpy

from pyromq._kernel.codec.bigend cimport load32, store32
from pyromq._kernel.codec.blocks cimport Block, copy, need

from collections.abc import Mapping

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL

cdef enum:
    PREFIX_BYTES = 5
    #: Before a header's name: its length, and its value's.
    LENGTHS_BYTES = 8
    #: A message with its prefix is one piece up to this size; what is larger is not copied.
    JOINED_BYTES_MAX = 4096
    #: Of the paths that are remembered.
    PATHS = 32
    PATH_BYTES_MAX = 128

#: Paths that were called, by their lengths: the same texts come with each call.
cdef list paths = [""] * PATHS


cdef str path_of(const char *path, Py_ssize_t size):
    """Return a path as a text, the same one as the last time if there was none of its length between."""
    cdef str known = <str> paths[size % PATHS]
    cdef Py_ssize_t length = 0
    cdef const char *text = PyUnicode_AsUTF8AndSize(known, &length)
    if length != size or memcmp(text, path, size) != 0:
        known = PyUnicode_DecodeLatin1(path, size, NULL)
        if size <= PATH_BYTES_MAX and known.isascii():
            paths[size % PATHS] = known
    return known


cdef int put_header(
    Block *headers, const uint8_t *name, Py_ssize_t name_size, const uint8_t *value, Py_ssize_t value_size
) except -1:
    """Write a header behind others, as `CallHeaders` has them."""
    cdef uint8_t *at
    need(headers, LENGTHS_BYTES + name_size + value_size)
    at = store32(headers.bytes + headers.used, <int32_t> name_size)
    copy(copy(store32(at, <int32_t> value_size), name, name_size), value, value_size)
    headers.used += LENGTHS_BYTES + name_size + value_size
    return 0


cdef class CallHeaders:
    """The headers of a call by their names, without those that begin with a colon; of several of one name the last.

    They stay the bytes that arrived: most calls have fourteen headers, of which two are looked at.
    """

    cdef const uint8_t *find(self, const char *name, Py_ssize_t length, Py_ssize_t *size) noexcept:
        """Return a header's value and set its size; NULL if it is not there."""
        cdef const uint8_t *at = <const uint8_t *> PyBytes_AS_STRING(self.packed)
        cdef const uint8_t *end = at + PyBytes_GET_SIZE(self.packed)
        cdef const uint8_t *value = NULL
        cdef Py_ssize_t name_size, value_size
        while at < end:
            name_size = load32(at)
            value_size = load32(at + 4)
            at += LENGTHS_BYTES
            if name_size == length and memcmp(at, name, length) == 0:
                value = at + name_size
                size[0] = value_size
            at += name_size + value_size
        return value

    def get(self, str name not None, default=None):
        """Return a header's value, or the default if it is not there."""
        cdef Py_ssize_t length = 0, size = 0
        cdef const char *text = PyUnicode_AsUTF8AndSize(name, &length)
        cdef const uint8_t *value = self.find(text, length, &size)
        return default if value == NULL else PyUnicode_DecodeLatin1(<const char *> value, size, NULL)

    def as_dict(self):
        """Return all of them."""
        cdef dict headers = {}
        cdef const uint8_t *at = <const uint8_t *> PyBytes_AS_STRING(self.packed)
        cdef const uint8_t *end = at + PyBytes_GET_SIZE(self.packed)
        cdef const char *name
        cdef Py_ssize_t name_size, value_size
        while at < end:
            name_size = load32(at)
            value_size = load32(at + 4)
            name = <const char *> at + LENGTHS_BYTES
            headers[PyUnicode_DecodeLatin1(name, name_size, NULL)] = (
                PyUnicode_DecodeLatin1(name + name_size, value_size, NULL)
            )
            at += LENGTHS_BYTES + name_size + value_size
        return headers

    def __getitem__(self, name):
        value = self.get(name)
        if value is None:
            raise KeyError(name)
        return value

    def __contains__(self, name):
        return self.get(name) is not None

    def __iter__(self):
        return iter(self.as_dict())

    def __len__(self):
        return len(self.as_dict())

    def keys(self):
        """Return their names."""
        return self.as_dict().keys()

    def items(self):
        """Return their names and values."""
        return self.as_dict().items()

    def values(self):
        """Return their values."""
        return self.as_dict().values()

    def __eq__(self, other):
        if isinstance(other, CallHeaders):
            return self.as_dict() == other.as_dict()
        return self.as_dict() == other

    def __repr__(self):
        return f"CallHeaders({self.as_dict()})"


Mapping.register(CallHeaders)


cdef class CallStream:
    """A stream, as its session keeps it."""

    cdef Py_ssize_t queue(self, bytes message) except -1:
        """Keep a message to be sent; return the bytes that it takes."""
        cdef Py_ssize_t size = PyBytes_GET_SIZE(message)
        cdef bint is_joined = size <= JOINED_BYTES_MAX
        cdef bytes piece = PyBytes_FromStringAndSize(NULL, PREFIX_BYTES + size if is_joined else PREFIX_BYTES)
        cdef uint8_t *prefix = <uint8_t *> PyBytes_AS_STRING(piece)
        prefix[0] = 0
        store32(prefix + 1, <int32_t> size)
        if is_joined:
            memcpy(prefix + PREFIX_BYTES, PyBytes_AS_STRING(message), size)
        self.queue_framed(piece)
        if not is_joined:
            self.queue_framed(message)
        return PREFIX_BYTES + size

    cdef Py_ssize_t queue_framed(self, bytes messages) except -1:
        """Keep messages to be sent that have their prefixes; return the bytes that they take."""
        if PyBytes_GET_SIZE(messages):
            if self.out is None:
                self.out = []
            self.out.append(messages)
            self.out_bytes += PyBytes_GET_SIZE(messages)
        return PyBytes_GET_SIZE(messages)

    cdef Py_ssize_t copy_out(self, uint8_t *into, Py_ssize_t room) except -1:
        """Copy what is sent next, as far as there is room; return how much it was."""
        cdef Py_ssize_t size, copied = 0
        cdef bytes piece
        if self.out is None:
            return 0
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
        if not self.out_bytes:
            self.out = None
            self.out_first = 0
        return copied

    cdef Py_ssize_t drop_out(self) except -1:
        """Forget what was not sent; return how much it was."""
        cdef Py_ssize_t dropped = self.out_bytes
        self.out = None
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
