"""Messages encoded as records of the log, which are planned and not yet written."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t

from pyromq._kernel.codec.blocks cimport Block
from pyromq._kernel.storage.drafts cimport Draft
from pyromq._kernel.storage.known cimport Topic
from pyromq._kernel.storage.notes cimport Notes
from pyromq._kernel.storage.tails cimport QueueTail


cdef struct Mark:
    #: How far a plan had come.
    Py_ssize_t records, entries, hashes


cdef class Plan(Notes):
    #: The queue of planned units: their entries only borrow it.
    cdef QueueTail _kept_queue
    cdef Block _records
    cdef bytes _store_host, _born_host
    #: Where the log ends behind what is planned, and where its file does.
    cdef int64_t _end, _limit
    cdef int64_t _now_ms

    cdef int begin(
        self, int64_t now_ms, bytes born_host, int64_t log_end, int64_t log_room, int64_t index_room
    ) except -1
    cdef Mark mark(self) noexcept
    cdef int undo(self, Mark mark, PyObject *queue, int64_t first_offset) except -1
    cdef bint add_units(
        self, const uint8_t *at, const uint8_t *end, Draft *draft, Topic topic, PyObject *queue
    ) except -1
    cdef bint add(self, Draft *draft, Topic topic, PyObject *queue) except -1
    cdef bint add_from(
        self, Draft *draft, Topic topic, PyObject *queue, const uint8_t *born_host, const uint8_t *store_host
    ) except -1
