"""The topics and queues that the kernel may have the messages of."""

from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint32_t

from pyromq._kernel.codec.frames cimport Span
from pyromq._kernel.storage.tails cimport QueueTail


cdef class Topic:
    cdef bytes name
    #: Java's hash of the name and `#`, with which the hashes of keys begin.
    cdef uint32_t key_head
    cdef int32_t sys_flag
    cdef dict kept
    cdef PyObject **queues
    cdef Py_ssize_t queue_count
    #: How many queues the topic has, with messages or without; 0 when nobody said so.
    cdef Py_ssize_t queue_limit

    cdef int learn(self, Py_ssize_t queue_id, QueueTail queue) except -1
    cdef PyObject *queue_of(self, int64_t queue_id) noexcept


cdef class KnownTopics:
    #: An open-addressing table by Java's hash of the name.
    cdef PyObject **_table
    cdef Py_ssize_t _size
    cdef dict _kept

    cdef int learn(self, bytes topic, Py_ssize_t queue_id, QueueTail queue, int32_t sys_flag) except -1
    cdef Topic know(self, bytes topic, int32_t sys_flag)
    cdef int forget(self, bytes topic) except -1
    cdef int forget_all(self) except -1
    cdef PyObject *find(self, Span *name) noexcept
    cdef int _rebuild(self) except -1
    cdef void _enter(self, Topic topic) noexcept
