"""The growing ends of queues, compiled; `pyromq.store.queue_tail` says what they mean."""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from libc.stdint cimport int64_t, uint8_t

from pyromq._kernel.bigend cimport store32, store64

cdef enum:
    ENTRY_BYTES = 20


cdef class QueueTail:

    def __cinit__(self, *args, **kwargs):
        self.held = bytearray()

    cpdef void append(self, int64_t position, int size, int64_t tags_code):
        cdef Py_ssize_t length = PyByteArray_GET_SIZE(self.held)
        PyByteArray_Resize(self.held, length + ENTRY_BYTES)
        cdef uint8_t *at = <uint8_t *> PyByteArray_AS_STRING(self.held) + length
        store64(store32(store64(at, position), size), tags_code)
        self.end += 1
        self.reach = position + size
