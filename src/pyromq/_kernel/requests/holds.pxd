"""Held pulls: a slot each, by the queue that they wait for."""

from libc.stdint cimport int32_t, int64_t

from pyromq._kernel.codec.inlets cimport Inlet
from pyromq._kernel.requests.reading cimport PullPlan, PullReader
from pyromq._kernel.storage.tails cimport QueueTail


cdef class HeldPull:
    cdef Holds holds
    cdef readonly Inlet inlet
    cdef PullPlan plan
    cdef readonly int64_t offset, count_max, bytes_max
    cdef int64_t held_at_ms, until_ms
    cdef readonly int32_t opaque
    cdef readonly bint is_json


cdef class Holds:
    #: The pulls that wait for a queue, in the order in which they came.
    cdef dict _waiting
    cdef readonly Py_ssize_t count
    #: Queues that grew, and the offset from which on they have not been looked at.
    cdef dict _grown

    cdef int hold(self, HeldPull pull) except -1
    cdef int _let_go(self, HeldPull pull) except -1
    cdef bint _is_wanted(self, HeldPull pull, int64_t first, int64_t end) except -1
    cdef int64_t _answer(self, HeldPull pull, PullReader reader, int64_t now_ms, list left) except -1
