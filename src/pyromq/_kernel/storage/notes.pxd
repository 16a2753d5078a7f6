"""Queue entries and index keys of records that are planned and not yet in the log."""

from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint32_t

from pyromq._kernel.codec.blocks cimport Block
from pyromq._kernel.codec.layout cimport Text
from pyromq._kernel.storage.tails cimport IndexTail


cdef struct Wanted:
    #: What queues and index want of the properties; a length of 0 is none.
    Text tags, identity, keys
    #: When the message is due, which its queue has in place of the hash of the tags; 0 is never.
    int64_t due_ms


cdef struct Entry:
    PyObject *queue
    int64_t position
    int64_t stored_at_ms
    int64_t tags_code
    int32_t size
    int32_t hash_count


cdef class Notes:
    cdef Block _entries, _hashes
    cdef bint _has_index
    #: How many keys the index takes.
    cdef int64_t _index_room

    cdef bint note(
        self, PyObject *queue, int64_t position, int32_t size, int64_t stored_at_ms, Wanted *wanted,
        uint32_t key_head,
    ) except -1
    cdef int _add_hash(self, Entry *entry, uint32_t value) except -1
    cdef int clear(self) except -1
    cdef tuple enter(self, IndexTail index, Py_ssize_t held_bytes_max, bint are_all_told)
