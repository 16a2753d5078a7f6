"""Diversions: plain messages go to a topic of the broker's own, where they wait."""

from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t

from pyromq._kernel.codec.blocks cimport Block
from pyromq._kernel.codec.frames cimport Span
from pyromq._kernel.storage.known cimport Topic

cdef enum:
    NUMBER_BYTES_MAX = 20
    #: What the properties of a diverted message take at most beside its own, the name of its topic left out.
    MORE_BYTES_MAX = 128


cdef struct Waiting:
    #: A message that is diverted: its queue there, and when it is due; 0 when that is not known.
    int32_t queue_id
    PyObject *queue
    int64_t due_ms
    #: What its properties point to.
    uint8_t level[NUMBER_BYTES_MAX]
    uint8_t due[NUMBER_BYTES_MAX]
    uint8_t own_queue_id[NUMBER_BYTES_MAX]


cdef class Diversion:
    cdef readonly bytes name
    #: Where the messages wait.
    cdef Topic topic
    #: The value that asks for it; None: a number.
    cdef bytes word
    #: Of each level, the first one first; NULL when the number is no level.
    cdef int64_t *delays_ms
    cdef Py_ssize_t level_count
    #: Of the number; 0 when it is a time itself.
    cdef int64_t unit_ms
    cdef int64_t delay_ms_max
    #: The property that says when the message is due; None: none.
    cdef bytes due_name
    #: Properties that a message must not have.
    cdef tuple excludes
    #: Bits of the sysFlag that a message loses.
    cdef int32_t cleared
    #: The broker that takes such messages back; None: nobody does.
    cdef bytes recalled_by

    cdef bint read(self, Span *value, int64_t now_ms, Waiting *waiting) noexcept
    cdef bint note(self, Block *pairs, Span *topic, int64_t queue_id, Waiting *waiting) except -1
    cdef Py_ssize_t write_handle(self, Block *out, Span *topic, Waiting *waiting, Span *unique_id) except -1
